// SPDX-License-Identifier: Apache-2.0
// Computes windows of a text over a cache that is gone afterwards, and watches the queries.
#include "engine/query_measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/status_macros.h"
#include "engine/executor.h"
#include "engine/kv_memory.h"
#include "engine/query_capture.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {
namespace {

Status ComputeWindow(Executor* executor, KvCache* cache, int rows, std::span<const TokenId> tokens,
                     QuerySink* sink, const std::atomic<bool>* cancel) {
  SKV_ASSIGN_OR_RETURN(const SequenceId sequence, cache->CreateSequence());
  for (std::size_t begin = 0; begin < tokens.size(); begin += static_cast<std::size_t>(rows)) {
    const auto part =
        tokens.subspan(begin, std::min(static_cast<std::size_t>(rows), tokens.size() - begin));
    StepPlan plan;
    plan.tokens.assign(part.begin(), part.end());
    PlannedSlice slice;
    slice.is_prefill = true;
    slice.rows.sequence = sequence;
    slice.rows.first_position = static_cast<std::int64_t>(begin);
    slice.rows.num_rows = static_cast<int>(part.size());
    slice.rows.num_outputs = 1;  // without logits the last layer's queries are not computed
    slice.rows.queries = sink;
    plan.slices.push_back(slice);
    SKV_RETURN_IF_ERROR(executor->Execute(plan, cancel).status());
  }
  cache->Release(sequence);
  return Status::Ok();
}

ModelQueryFigures FiguresOf(const QueryCapture& capture, const DecoderSpec& spec) {
  ModelQueryFigures figures;
  const auto dim = static_cast<std::size_t>(spec.head_dim);
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    LayerQueryFigures& layer = figures.layers.emplace_back();
    const QueryStatistics* const statistics = capture.statistics(static_cast<int>(i));
    if (statistics == nullptr) continue;
    const auto heads = static_cast<std::size_t>(spec.layers[i].num_heads);
    layer.mean.resize(heads * dim);
    layer.covariance.resize(heads * dim * dim);
    statistics->CopyMean(layer.mean);
    statistics->CopyCovariance(layer.covariance);
  }
  return figures;
}

}  // namespace

Result<ModelQueryFigures> MeasureQueryFigures(LanguageModel* model, const QueryMeasurement& task,
                                              const ProgressCallback& progress,
                                              const std::atomic<bool>* cancel) {
  if (task.tokens.empty()) {
    return Status::InvalidArgument("query statistics need a text of 1 token or more, got 0");
  }
  const int window = std::min(task.window, model->context());
  if (window < 2) {
    return Status::InvalidArgument(
        fmt::format("query statistics need windows of 2 tokens or more, got {}", window));
  }
  constexpr std::uint64_t kMetadataBytes = 256ULL << 10;
  KvCacheOptions options;
  options.layers = model->layer_shapes();
  SKV_ASSIGN_OR_RETURN(const KvFootprint widest, KvFootprint::Make(options.layers, "f32", "f32"));
  const std::uint64_t whole = widest.PageBytes(window + kPageTokens);
  options.memory_bytes = whole + whole / 64 + kMetadataBytes;
  if (task.kv_bytes != 0) options.memory_bytes = std::min(options.memory_bytes, task.kv_bytes);
  SKV_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> cache, KvCache::Create(options));
  Executor executor(model, cache.get());
  ScoreNeeds needs;
  needs.query_statistics = true;
  QueryCapture capture(model->spec(), needs, 0);
  const auto text = static_cast<int>(task.tokens.size());
  const int own = window - (task.bos == kNoToken ? 0 : 1);  // tokens of the text in a window
  for (int begin = 0; begin < text; begin += own) {
    if (progress && !progress(static_cast<double>(begin) / text)) {
      return Status::Cancelled("measuring was stopped");
    }
    const int end = std::min(text, begin + own);
    std::vector<TokenId> tokens;
    if (task.bos != kNoToken) tokens.push_back(task.bos);
    tokens.insert(tokens.end(), task.tokens.begin() + begin, task.tokens.begin() + end);
    SKV_RETURN_IF_ERROR(
        ComputeWindow(&executor, cache.get(), model->max_batch_rows(), tokens, &capture, cancel));
  }
  return FiguresOf(capture, model->spec());
}

}  // namespace swiftkv
