// SPDX-License-Identifier: Apache-2.0
// Divides the heads of each layer among the threads of a step.
#include "engine/query_capture.h"

namespace swiftkv {

QueryCapture::QueryCapture(const DecoderSpec& spec, const ScoreNeeds& needs, int observed)
    : spec_(&spec) {
  if (needs.probabilities && observed > 0) recent_.emplace(spec, observed);
  if (!needs.query_statistics) return;
  for (const DecoderLayerSpec& layer : spec.layers) {
    statistics_.emplace_back();
    if (layer.window == 0) statistics_.back().emplace(layer.num_heads, spec.head_dim);
  }
}

void QueryCapture::Add(const SliceQueries& queries, int thread, int num_threads) {
  if (recent_) recent_->Add(queries, thread, num_threads);
  const auto layer = static_cast<std::size_t>(queries.layer);
  if (statistics_.empty() || !statistics_[layer]) return;
  const int heads = spec_->layers[layer].num_heads;
  const QueryRows rows = {.rows = queries.plain,
                          .row_stride = queries.plain_stride,
                          .num_rows = queries.num_rows,
                          .first_head = heads * thread / num_threads,
                          .end_head = heads * (thread + 1) / num_threads};
  if (rows.first_head < rows.end_head) statistics_[layer]->Add(rows);
}

const QueryStatistics* QueryCapture::statistics(int layer) const {
  const auto index = static_cast<std::size_t>(layer);
  if (statistics_.empty() || !statistics_[index]) return nullptr;
  return &*statistics_[index];
}

}  // namespace swiftkv
