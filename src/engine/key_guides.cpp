// SPDX-License-Identifier: Apache-2.0
// Computes a text once and turns the moments of its queries into guides.
#include "engine/key_guides.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "engine/executor.h"
#include "model/query_moments.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {
namespace {

constexpr int kLeastTokens = 16;
// Arrays and page tables of a cache of some hundred tokens; what is not needed is not mapped.
constexpr std::uint64_t kMetadataBytes = 256ULL << 10;

// Of one token in f16, without regard to windows: a step's rows are stored before the oldest go.
std::uint64_t TokenBytes(const LanguageModel& model) {
  std::uint64_t bytes = 0;
  for (const LayerShape& layer : model.layer_shapes()) {
    bytes +=
        static_cast<std::uint64_t>(layer.kv_heads * layer.head_dim) * 2 * sizeof(std::uint16_t);
  }
  return bytes;
}

Result<std::unique_ptr<KvCache>> MakeCache(const LanguageModel& model, int tokens,
                                           std::uint64_t kv_bytes) {
  KvCacheOptions options;
  options.layers = model.layer_shapes();
  const std::uint64_t needed =
      TokenBytes(model) * static_cast<std::uint64_t>(tokens + kPageTokens) + kMetadataBytes;
  options.memory_bytes = std::min(kv_bytes, needed);
  return KvCache::Create(options);
}

Status Compute(LanguageModel* model, KvCache* cache, std::span<const TokenId> tokens,
               const std::atomic<bool>* cancel) {
  Executor executor(model, cache);
  SKV_ASSIGN_OR_RETURN(const SequenceId sequence, cache->CreateSequence());
  const int count = static_cast<int>(tokens.size());
  for (int begin = 0; begin < count; begin += model->max_batch_rows()) {
    const int end = std::min(count, begin + model->max_batch_rows());
    StepPlan plan;
    plan.tokens.assign(tokens.begin() + begin, tokens.begin() + end);
    PlannedSlice slice;
    slice.is_prefill = true;
    slice.rows.sequence = sequence;
    slice.rows.first_position = begin;
    slice.rows.num_rows = end - begin;
    slice.rows.num_outputs = 1;  // without logits the last layer's queries are not computed
    plan.slices.push_back(slice);
    SKV_RETURN_IF_ERROR(executor.Execute(plan, cancel).status());
  }
  return Status::Ok();
}

}  // namespace

int GuideTokensWithin(const LanguageModel& model, std::uint64_t kv_bytes) {
  const std::uint64_t for_pages = kv_bytes - std::min(kv_bytes, kMetadataBytes);
  const std::uint64_t blocks = for_pages / (TokenBytes(model) * kPageTokens);
  const auto most = static_cast<std::uint64_t>(std::min(kGuideTokens, model.context()));
  return static_cast<int>(std::min(blocks * kPageTokens, most));
}

Result<std::shared_ptr<const KeyGuides>> MeasureKeyGuides(LanguageModel* model,
                                                          std::span<const TokenId> tokens,
                                                          std::uint64_t kv_bytes,
                                                          const std::atomic<bool>* cancel) {
  if (tokens.empty()) {
    return Status::InvalidArgument("guides need a text of 1 token or more, got 0");
  }
  const int most = GuideTokensWithin(*model, kv_bytes);
  if (most < std::min(kLeastTokens, model->context())) return std::shared_ptr<const KeyGuides>();
  tokens = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(most)));
  SKV_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> cache,
                       MakeCache(*model, static_cast<int>(tokens.size()), kv_bytes));
  QueryMoments moments(model->spec());
  model->set_query_moments(&moments);
  const Status computed = Compute(model, cache.get(), tokens, cancel);
  model->set_query_moments(nullptr);
  SKV_RETURN_IF_ERROR(computed);
  auto guides = std::make_shared<KeyGuides>();
  const DecoderSpec& spec = model->spec();
  for (int layer = 0; layer < static_cast<int>(spec.layers.size()); ++layer) {
    std::vector<RoundingGuide>& heads = guides->emplace_back();
    for (int head = 0; head < spec.layers[static_cast<std::size_t>(layer)].kv_heads; ++head) {
      heads.push_back(GuideForQueries(moments.AtAllPositions(layer, head), spec.head_dim));
    }
  }
  return std::shared_ptr<const KeyGuides>(std::move(guides));
}

}  // namespace swiftkv
