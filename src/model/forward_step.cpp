// SPDX-License-Identifier: Apache-2.0
// Implements the bridge between the graph's nodes and cache and attention.
#include "model/forward_step.h"

#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"

namespace swiftkv {
namespace {

constexpr int kUsualSequences = 16;       // decoded together
constexpr std::uint32_t kUsualBytes = 4;  // of a channel of K and V

// Sequences of `context` tokens each, the last `rows` of which are computed, as far as a plan looks
// at them: extents without pages.
struct PlannedBatch {
  PlannedBatch(const AttentionShape& shape, int sequences, int rows, int context) {
    PageRun run;
    run.num_tokens = context;
    run.num_pages = (context + kPageTokens - 1) / kPageTokens;
    run.end_head = shape.num_kv_heads;
    run.layout.bytes = kUsualBytes * kPageTokens * static_cast<std::uint32_t>(shape.head_dim);
    runs.assign(static_cast<std::size_t>(sequences), run);
    for (int i = 0; i < sequences; ++i) {
      slices.push_back({std::span(runs).subspan(static_cast<std::size_t>(i), 1), i * rows, rows,
                        context - rows});
    }
    batch.shape = shape;
    batch.sequences = slices;
  }

  std::vector<PageRun> runs;
  std::vector<AttentionSequence> slices;
  AttentionBatch batch;
};

bool HasGaps(const PageRun& run) { return run.positions != nullptr; }

bool SameShape(const AttentionShape& a, const AttentionShape& b) {
  return a.num_heads == b.num_heads && a.num_kv_heads == b.num_kv_heads && a.window == b.window;
}

}  // namespace

ForwardStep::ForwardStep(const DecoderSpec& spec, const AttentionBackend& backend)
    : backend_(backend) {
  layers_.resize(spec.layers.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    AttentionShape shape;
    shape.num_heads = spec.layers[i].num_heads;
    shape.num_kv_heads = spec.layers[i].kv_heads;
    shape.head_dim = spec.head_dim;
    shape.scale = spec.attention_scale;
    shape.softcap = spec.attention_softcap;
    shape.window = spec.layers[i].window;
    const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) {
      return SameShape(group.shape, shape);
    });
    layers_[i].group = static_cast<std::size_t>(found - groups_.begin());
    if (found == groups_.end()) groups_.push_back({shape, nullptr});
  }
}

Status ForwardStep::ReserveScratch(int max_rows, int context) {
  std::size_t bytes = 0;
  const int rows = std::min(max_rows, context);
  for (const Group& group : groups_) {
    const PlannedBatch prefill(group.shape, 1, rows, context);
    const PlannedBatch decode(group.shape, std::min(max_rows, kUsualSequences), 1, context);
    for (const PlannedBatch* planned : {&prefill, &decode}) {
      bytes = std::max(bytes, backend_.Plan(planned->batch)->scratch_bytes());
    }
  }
  return EnsureScratch(bytes);
}

Status ForwardStep::Prepare(KvCache* cache, const ModelBatch& batch) {
  SKV_CHECK(cache->num_layers() == static_cast<int>(layers_.size()),
            "the cache is another model's");
  cache_ = cache;
  slices_.assign(batch.slices.begin(), batch.slices.end());
  num_rows_ = static_cast<int>(batch.tokens.size());
  needs_merge_ = false;
  captures_ = std::any_of(slices_.begin(), slices_.end(),
                          [](const BatchSlice& slice) { return slice.queries != nullptr; });
  for (Group& group : groups_) group.plan = nullptr;
  std::size_t scratch = 0;
  for (int layer = 0; layer < static_cast<int>(layers_.size()); ++layer) {
    CollectRuns(layer, batch);
    SKV_RETURN_IF_ERROR(CheckServed(layers_[static_cast<std::size_t>(layer)]));
    PlanLayer(layer);
    needs_merge_ = needs_merge_ || PlanOf(layer).needs_merge();
    scratch = std::max(scratch, PlanOf(layer).scratch_bytes());
  }
  return EnsureScratch(scratch);
}

void ForwardStep::PlanLayer(int index) {
  Layer& layer = layers_[static_cast<std::size_t>(index)];
  layer.own_plan = nullptr;
  if (std::any_of(layer.runs.begin(), layer.runs.end(), HasGaps)) {
    layer.own_plan = backend_.Plan(BatchOf(index));
    return;
  }
  std::unique_ptr<AttentionPlan>& plan = groups_[layer.group].plan;
  if (plan == nullptr) plan = backend_.Plan(BatchOf(index));
}

const AttentionPlan& ForwardStep::PlanOf(int index) const {
  const Layer& layer = layers_[static_cast<std::size_t>(index)];
  return layer.own_plan != nullptr ? *layer.own_plan : *groups_[layer.group].plan;
}

// Sequences of a batch, and layers and blocks of a sequence, may differ in format.
Status ForwardStep::CheckServed(const Layer& layer) const {
  const PageFormat* served = nullptr;
  for (const PageRun& run : layer.runs) {
    if (served != nullptr && *served == run.format) continue;
    SKV_RETURN_IF_ERROR(backend_.Serves(groups_[layer.group].shape, run.format));
    served = &run.format;
  }
  return Status::Ok();
}

void ForwardStep::CollectRuns(int layer, const ModelBatch& batch) {
  Layer& target = layers_[static_cast<std::size_t>(layer)];
  target.runs.clear();
  target.sequences.clear();
  run_ends_.clear();
  for (const BatchSlice& slice : batch.slices) {
    cache_->AppendRuns(slice.sequence, layer, slice.num_rows, &target.runs);
    run_ends_.push_back(target.runs.size());
  }
  std::size_t begin = 0;
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    const BatchSlice& slice = batch.slices[i];
    AttentionSequence sequence;
    sequence.runs = std::span(target.runs).subspan(begin, run_ends_[i] - begin);
    sequence.first_row = slice.first_row;
    sequence.num_rows = slice.num_rows;
    sequence.first_position = slice.first_position;
    target.sequences.push_back(sequence);
    begin = run_ends_[i];
  }
}

AttentionBatch ForwardStep::BatchOf(int layer) const {
  const Layer& source = layers_[static_cast<std::size_t>(layer)];
  AttentionBatch batch;
  batch.shape = groups_[source.group].shape;
  batch.sequences = source.sequences;
  return batch;
}

Status ForwardStep::EnsureScratch(std::size_t bytes) {
  if (bytes <= scratch_size_) return Status::Ok();
  scratch_ = AllocateAligned(bytes);
  scratch_size_ = scratch_ == nullptr ? 0 : RoundToCacheLine(bytes);
  if (scratch_ != nullptr) return Status::Ok();
  return Status::ResourceExhausted("not enough memory for the scratch of attention, in bytes: " +
                                   std::to_string(bytes));
}

// Work is cut into (slice, head, stretch of tokens); stretches begin at multiples of a page's
// tokens, so that two threads never write into one page. One call of StoreRows takes one stride
// for K and V, so that where theirs differ tokens go one by one.
void ForwardStep::Store(int layer, const ComputedKv& kv, int thread, int num_threads) const {
  const bool timed = times_ != nullptr && thread == 0;
  const ForwardTimer timer(timed ? &times_->store_seconds : nullptr);
  const std::int64_t stretch = kv.key_stride == kv.value_stride ? 4 * kPageTokens : 1;
  const int kv_heads = groups_[layers_[static_cast<std::size_t>(layer)].group].shape.num_kv_heads;
  int item = 0;
  for (const BatchSlice& slice : slices_) {
    const std::int64_t end = slice.first_position + slice.num_rows;
    for (std::int64_t from = slice.first_position; from < end;) {
      const std::int64_t to = std::min(end, (from / stretch + 1) * stretch);
      const auto row = static_cast<std::size_t>(slice.first_row + (from - slice.first_position));
      for (int head = 0; head < kv_heads; ++head, ++item) {
        if (item % num_threads != thread) continue;
        KvRows rows;
        rows.sequence = slice.sequence;
        rows.layer = layer;
        rows.first_position = from;
        rows.num_tokens = static_cast<int>(to - from);
        rows.first_head = head;
        rows.end_head = head + 1;
        rows.keys = kv.keys + row * kv.key_stride;
        rows.values = kv.values + row * kv.value_stride;
        rows.token_stride = kv.key_stride;
        cache_->StoreRows(rows);
      }
      from = to;
    }
  }
}

void ForwardStep::Capture(int layer, const ComputedQueries& queries, int thread,
                          int num_threads) const {
  for (const BatchSlice& slice : slices_) {
    if (slice.queries == nullptr) continue;
    const auto row = static_cast<std::size_t>(slice.first_row);
    slice.queries->Add({.layer = layer,
                        .plain = queries.plain + row * queries.plain_stride,
                        .turned = queries.turned + row * queries.turned_stride,
                        .plain_stride = queries.plain_stride,
                        .turned_stride = queries.turned_stride,
                        .first_position = slice.first_position,
                        .num_rows = slice.num_rows},
                       thread, num_threads);
  }
}

void ForwardStep::Attend(int layer, const float* q, float* out, AttentionTeam team) const {
  const ForwardTimer timer(AttentionSeconds(team.thread));
  AttentionBatch batch = BatchOf(layer);
  if (query_moments_ != nullptr) {
    query_moments_->Add(layer, q, num_rows_, team.thread, team.num_threads);
  }
  batch.q = q;
  batch.out = out;
  team.scratch = scratch_.get();
  backend_.Partial(batch, PlanOf(layer), team);
}

void ForwardStep::Merge(int layer, const float* q, float* out, AttentionTeam team) const {
  const AttentionPlan& plan = PlanOf(layer);
  if (!plan.needs_merge()) return;
  const ForwardTimer timer(AttentionSeconds(team.thread));
  AttentionBatch batch = BatchOf(layer);
  batch.q = q;
  batch.out = out;
  team.scratch = scratch_.get();
  backend_.Merge(batch, plan, team);
}

}  // namespace swiftkv
