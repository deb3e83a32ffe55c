// SPDX-License-Identifier: Apache-2.0
// Turns pages into scores, scores into a plan, and the plan into the cache's order.
#include "engine/compaction_job.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "policy/token_ranking.h"

namespace swiftkv {
namespace {

// Heads that each thread scores before anybody looks at the clock again.
constexpr std::size_t kHeadsPerThread = 2;

// Blocks that are copied before anybody looks at the clock again.
constexpr int kBlocksPerPiece = 8;

}  // namespace

CompactionJob::CompactionJob(const KvCache& cache, const CompactionTask& task)
    : task_(task),
      length_(cache.Length(task.sequence)),
      dense_(cache.SegmentEnd(task.sequence) == 0) {
  const ForgettingRule& rule = *task_.rule;
  // What is to be found by others ends where the sequence does, as if its newest tokens were to
  // come: they are computed over what is kept, by everybody alike.
  const bool whole =
      task_.for_sharing || rule.schedule.when == CompactionSchedule::When::kWithinPrompt;
  plan_length_ = whole ? length_ + rule.budget.recent : length_;
  end_ = CompressibleEnd(rule.budget, plan_length_);
  for (int i = 0; i < cache.num_layers(); ++i) {
    layers_.push_back(cache.layer(i));
    if (cache.layer(i).window > 0) continue;
    for (int head = 0; head < cache.layer(i).kv_heads; ++head) {
      heads_.push_back({.layer = i, .head = head, .positions = {}, .scores = {}, .order = {}});
    }
  }
  if (!dense_) return;
  all_positions_.resize(static_cast<std::size_t>(end_));
  std::iota(all_positions_.begin(), all_positions_.end(), 0);
}

std::span<const std::int32_t> CompactionJob::PositionsOf(const Head& head) const {
  return dense_ ? std::span<const std::int32_t>(all_positions_) : head.positions;
}

Result<CompactionJob::Layer> CompactionJob::ReadLayer(const KvCache& cache, int index) const {
  Layer layer;
  layer.layer = index;
  cache.AppendRuns(task_.sequence, index, 0, &layer.runs);
  for (const PageRun& run : layer.runs) layer.slots += static_cast<std::size_t>(run.num_tokens);
  if (task_.uses_figures) {
    const LayerQueryFigures& figures = task_.rule->figures->layers[static_cast<std::size_t>(index)];
    layer.query_mean = figures.mean;
    layer.query_covariance = figures.covariance;
  }
  if (task_.queries == nullptr) return layer;
  const DecoderLayerSpec& spec = task_.model->spec().layers[static_cast<std::size_t>(index)];
  const QueryStatistics* const statistics = task_.queries->statistics(index);
  if (statistics != nullptr && layer.query_mean.empty()) {
    const auto dim = static_cast<std::size_t>(task_.model->spec().head_dim);
    const auto rows = static_cast<std::size_t>(spec.num_heads) * dim;
    layer.query_mean.resize(rows);
    layer.query_covariance.resize(rows * dim);
    statistics->CopyMean(layer.query_mean);
    statistics->CopyCovariance(layer.query_covariance);
  }
  if (const RecentQueries* recent = task_.queries->recent()) {
    layer.probabilities.resize(static_cast<std::size_t>(spec.kv_heads) * layer.slots);
    SKV_RETURN_IF_ERROR(
        task_.model->SumProbabilities(cache, task_.sequence, index, *recent, layer.probabilities));
  }
  return layer;
}

void CompactionJob::FillQueries(const Layer& layer, int head, Scratch* scratch,
                                ScoreInputs* inputs) const {
  if (task_.queries == nullptr && !task_.uses_figures) return;
  const DecoderSpec& spec = task_.model->spec();
  const DecoderLayerSpec& shape = spec.layers[static_cast<std::size_t>(layer.layer)];
  const auto gqa = static_cast<std::size_t>(shape.num_heads / shape.kv_heads);
  const auto kv_head = static_cast<std::size_t>(head);
  inputs->gqa = static_cast<int>(gqa);
  inputs->attention_scale = spec.attention_scale;
  const RopeFrequencies& rope = task_.model->rope(layer.layer);
  inputs->rope = {.frequencies = rope.frequencies,
                  .pairs = rope.layout == RopeLayout::kSplitHalf ? RopePairs::kSplitHalf
                                                                 : RopePairs::kInterleaved,
                  .magnitude = rope.magnitude};
  const auto dim = static_cast<std::size_t>(spec.head_dim);
  if (!layer.query_mean.empty()) {
    const std::size_t rows = gqa * dim;
    inputs->query_mean = std::span(layer.query_mean).subspan(kv_head * rows, rows);
    inputs->query_covariance =
        std::span(layer.query_covariance).subspan(kv_head * rows * dim, rows * dim);
  }
  const RecentQueries* const recent = task_.queries == nullptr ? nullptr : task_.queries->recent();
  if (recent != nullptr) {
    const float* const sums = layer.probabilities.data() + kv_head * layer.slots;
    scratch->probabilities.clear();
    for (const std::size_t slot : scratch->capture.slots) {
      scratch->probabilities.push_back(sums[slot]);
    }
    inputs->probabilities = scratch->probabilities;
    inputs->observed_queries = recent->count(layer.layer);
  }
}

void CompactionJob::ScoreHead(const Layer& layer, Head* head, Scratch* scratch) const {
  const PolicyChoice& policy = task_.rule->policy;
  const LayerShape& shape = layers_[static_cast<std::size_t>(head->layer)];
  HeadCapture* const capture = &scratch->capture;
  CaptureHead({.runs = layer.runs,
               .head = head->head,
               .head_dim = shape.head_dim,
               .end = end_,
               .needs = policy.policy->info().needs},
              capture);
  if (!dense_) head->positions = capture->positions;
  ScoreInputs inputs;
  inputs.layer = head->layer;
  inputs.num_layers = static_cast<int>(layers_.size());
  inputs.first_head = head->head;
  inputs.kv_heads = 1;
  inputs.head_dim = shape.head_dim;
  inputs.num_tokens = static_cast<int>(capture->positions.size());
  inputs.next_position = length_;
  inputs.positions = capture->positions;
  inputs.keys = capture->keys;
  inputs.value_norms = capture->value_norms;
  inputs.seed = task_.rule->seed;
  FillQueries(layer, head->head, scratch, &inputs);
  head->scores.resize(capture->positions.size());
  policy.policy->Score(inputs, policy.parameters, head->scores);
  head->order = RankedOrder({.scores = head->scores, .positions = capture->positions},
                            task_.rule->budget.sinks);
}

Status CompactionJob::Score(const KvCache& cache, ThreadTeam* team) {
  scratch_.resize(static_cast<std::size_t>(team->num_threads()));
  const std::size_t first = scored_;
  const std::size_t count = std::min(heads_.size() - first, kHeadsPerThread * scratch_.size());
  std::vector<Layer> layers;
  std::vector<std::size_t> layer_of(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (layers.empty() || layers.back().layer != heads_[first + i].layer) {
      SKV_ASSIGN_OR_RETURN(Layer layer, ReadLayer(cache, heads_[first + i].layer));
      layers.push_back(std::move(layer));
    }
    layer_of[i] = layers.size() - 1;
  }
  team->Run([&](int thread, int num_threads) {
    for (auto i = static_cast<std::size_t>(thread); i < count;
         i += static_cast<std::size_t>(num_threads)) {
      ScoreHead(layers[layer_of[i]], &heads_[first + i],
                &scratch_[static_cast<std::size_t>(thread)]);
    }
  });
  scored_ += count;
  if (scored_ == heads_.size()) scratch_ = {};
  return Status::Ok();
}

Result<PagePlan> CompactionJob::Plan(const KvCache& cache) const {
  std::vector<PlannedLayer> planned;
  for (const Head& head : heads_) {
    if (planned.empty() || planned.back().layer != head.layer) {
      SKV_ASSIGN_OR_RETURN(const std::uint64_t kept_bytes,
                           cache.KeptPageBytes(task_.rule->format, head.layer));
      PlannedLayer& layer = planned.emplace_back();
      layer.layer = head.layer;
      layer.dense_page_bytes = kept_bytes - kPageTokens * sizeof(std::int32_t);
      layer.page_bytes = {kept_bytes};
      const std::vector<KvFormat>& formats = task_.rule->kept_formats;
      for (std::size_t i = 1; i < formats.size(); ++i) {
        SKV_ASSIGN_OR_RETURN(layer.page_bytes.emplace_back(),
                             cache.KeptPageBytes(formats[i], head.layer));
      }
    }
    planned.back().heads.push_back(
        {.scores = head.scores, .positions = PositionsOf(head), .order = head.order});
  }
  const ForgettingRule& rule = *task_.rule;
  return PlanPages(task_.for_sharing ? rule.shared_budget : rule.budget,
                   {.layers = planned, .length = plan_length_});
}

CompactionOrder CompactionJob::OrderOf(const PagePlan& plan) const {
  const ForgettingRule& rule = *task_.rule;
  CompactionOrder order;
  order.end = end_;
  order.formats = {rule.format};
  if (!rule.kept_formats.empty()) order.formats = rule.kept_formats;
  const ForgettingRecipes& recipes = rule.recipes(task_.uses_figures);
  order.recipe = task_.for_sharing ? recipes.shared : recipes.prompt;
  order.shareable = dense_ && end_ == length_ && rule.query_agnostic();
  SKV_CHECK(plan.heads.size() == heads_.size());
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    const HeadPlan& head = plan.heads[i];
    const std::span<const std::int32_t> positions = PositionsOf(heads_[i]);
    KeptHead& kept = order.heads.emplace_back();
    kept.layer = head.layer;
    kept.head = head.head;
    for (const std::vector<std::int32_t>& indices : head.kept) {
      std::vector<std::int32_t>& list = kept.positions.emplace_back();
      list.reserve(indices.size());
      for (const std::int32_t index : indices) {
        list.push_back(positions[static_cast<std::size_t>(index)]);
      }
    }
  }
  return order;
}

Status CompactionJob::SettleOrder(const KvCache& cache) {
  SKV_ASSIGN_OR_RETURN(const PagePlan plan, Plan(cache));
  planned_ = true;
  // Where smaller formats hold all of them, tokens move though none is dropped.
  const bool changes = plan.dropped_tokens > 0 || task_.rule->kept_formats.size() > 1;
  if (plan.outcome == PlanOutcome::kCompress && changes) order_ = OrderOf(plan);
  heads_.clear();
  heads_.shrink_to_fit();
  return Status::Ok();
}

Result<std::optional<CompactionOutcome>> CompactionJob::CompactSome(KvCache* cache) {
  SKV_CHECK(scored());
  SKV_CHECK(cache->Length(task_.sequence) == length_, "a sequence waits while it is compacted");
  if (!planned_) {
    SKV_RETURN_IF_ERROR(SettleOrder(*cache));
    return std::optional<CompactionOutcome>();
  }
  CompactionOutcome outcome;
  if (!begun_) {
    if (!order_.heads.empty()) {
      SKV_ASSIGN_OR_RETURN(begun_, cache->BeginCompaction(task_.sequence, order_));
    }
    if (begun_) return std::optional<CompactionOutcome>();
    SKV_ASSIGN_OR_RETURN(outcome, Compact(cache));
    return std::optional(outcome);
  }
  if (!cache->ContinueCompaction(task_.sequence, kBlocksPerPiece)) {
    return std::optional<CompactionOutcome>();
  }
  outcome.compacted = true;
  outcome.result = cache->FinishCompaction(task_.sequence, order_);
  return std::optional(outcome);
}

Result<CompactionOutcome> CompactionJob::Compact(KvCache* cache) {
  SKV_CHECK(scored());
  if (!planned_) SKV_RETURN_IF_ERROR(SettleOrder(*cache));
  CompactionOutcome outcome;
  if (order_.heads.empty()) return outcome;
  outcome.compacted = true;
  SKV_ASSIGN_OR_RETURN(outcome.result, cache->Compact(task_.sequence, order_));
  return outcome;
}

}  // namespace swiftkv
