// SPDX-License-Identifier: Apache-2.0
// Computes work items: an online softmax over the pages of a chunk, for the query vectors of a
// tile.
#include <cstddef>
#include <cstdint>

#include "attention/phases.h"
#include "attention/tile_state.h"

namespace swiftkv {
namespace {

// Turns raw scores of a batch into weights.
void UpdateSoftmax(const AttentionKernels& kernels, const AttentionShape& shape, int pages,
                   bool masked, TileState* state) {
  if (masked || shape.softcap > 0) {
    kernels.adjust_scores({.scores = state->scores,
                           .vectors = state->vectors,
                           .pages = pages,
                           .softcap = shape.softcap * kLog2E,
                           .positions = masked ? state->positions : nullptr,
                           .first_visible = state->first_visible,
                           .last_visible = state->last_visible});
  }
  kernels.softmax_step({.scores = state->scores,
                        .vectors = state->vectors,
                        .pages = pages,
                        .max = state->max,
                        .sums = state->sums,
                        .out = state->out,
                        .out_stride = kRowStride,
                        .head_dim = shape.head_dim});
}

// Holds the thread's matrix registers while an item needs them.
class TileLease {
 public:
  explicit TileLease(const TileKernels* tiles) : tiles_(tiles) {
    if (tiles_ != nullptr) tiles_->acquire();
  }
  ~TileLease() {
    if (tiles_ != nullptr) tiles_->release();
  }
  TileLease(const TileLease&) = delete;
  TileLease& operator=(const TileLease&) = delete;

 private:
  const TileKernels* tiles_;
};

// What the kernels unpack, without the scales, which products of tiles apply in f32.
BatchPlanes WithoutScales(const BatchPlanes& planes) {
  static constexpr std::uint16_t kOne = 0x3C00;  // f16
  static constexpr std::uint16_t kOnes[kPageTokens] = {kOne, kOne, kOne, kOne, kOne, kOne,
                                                       kOne, kOne, kOne, kOne, kOne, kOne,
                                                       kOne, kOne, kOne, kOne};
  BatchPlanes plain = planes;
  for (const std::uint16_t*& scales : plain.scales) scales = kOnes;
  return plain;
}

// Formats of fewer bits lose far more by themselves than rounding the other operand to bf16 does.
constexpr double kFineBits = 8;

TileBatch AsTileBatch(const PageBatch& pages, const BatchPlanes& planes, const PageCodec& codec,
                      const TileState& state, int head_dim) {
  return {.planes = &planes,
          .unpacked = state.unpacked,
          .vectors = state.vectors,
          .head_dim = head_dim,
          .tokens = pages.tokens,
          .split_vectors = codec.info().bits_per_value >= kFineBits,
          .split_pages = codec.info().quality == Quality::kExact};
}

// Scores of a batch, from its stored format or from an unpacked copy.
void ComputeScores(const AttentionKernels& kernels, const PageBatch& pages, int head_dim,
                   TileState* state) {
  const int format = pages.key_format();
  const PageCodec& codec = *pages.run->format.key;
  TurnQueries(kernels, head_dim, codec.info().rotated, state);
  if (state->tiled) {
    kernels.unpack_keys[format](WithoutScales(pages.keys), head_dim, state->unpacked);
    kernels.tiles->score(AsTileBatch(pages, pages.keys, codec, *state, head_dim), state->scores,
                         &state->tile_buffers);
    return;
  }
  if (state->vectors <= kMaxFewVectors || kernels.tiles_stay_packed[format]) {
    kernels.dot[format](state->query_tile(head_dim), pages.keys, state->scores);
    return;
  }
  kernels.unpack_keys[format](pages.keys, head_dim, state->unpacked);
  kernels.multiply({.a = state->queries,
                    .b = state->unpacked,
                    .c = state->scores,
                    .a_stride = kRowStride,
                    .b_stride = kBatchTokens,
                    .c_stride = kBatchTokens,
                    .m = state->vectors,
                    .n = pages.keys.pages,
                    .k = head_dim,
                    .accumulate = false,
                    .planes = &pages.keys});
}

// Adds the values of a batch, times its weights [vectors, 64], likewise.
void AddValues(const AttentionKernels& kernels, const PageBatch& pages, const float* weights,
               int head_dim, TileState* state) {
  const int format = pages.value_format();
  const PageCodec& codec = *pages.run->format.value;
  TurnSums(head_dim, codec.info().rotated, state);
  state->out_empty = false;
  if (state->tiled) {
    kernels.unpack_values[format](WithoutScales(pages.values), head_dim, state->unpacked);
    kernels.tiles->add_values(AsTileBatch(pages, pages.values, codec, *state, head_dim), weights,
                              state->out, &state->tile_buffers);
    return;
  }
  if (state->vectors <= kMaxFewVectors || kernels.tiles_stay_packed[format]) {
    kernels.weigh[format]({.weights = weights,
                           .out = state->out,
                           .vectors = state->vectors,
                           .head_dim = head_dim,
                           .tokens = pages.tokens},
                          pages.values);
    return;
  }
  kernels.unpack_values[format](pages.values, head_dim, state->unpacked);
  kernels.multiply({.a = weights,
                    .b = state->unpacked,
                    .c = state->out,
                    .a_stride = kBatchTokens,
                    .b_stride = head_dim,
                    .c_stride = kRowStride,
                    .m = state->vectors,
                    .n = head_dim / 16,
                    .k = pages.tokens,
                    .accumulate = true,
                    .planes = &pages.values});
}

std::span<const PageRun> RunsOf(const AttentionBatch& batch, const RowTile& tile) {
  return batch.sequences[static_cast<std::size_t>(tile.sequence)].runs;
}

// Lets the last batch of an item prefetch the first pages of the thread's next one.
void PrefetchItem(const AttentionBatch& batch, const WorkPlan& plan, std::size_t index,
                  PageBatch* last) {
  if (index >= plan.items().size()) return;
  const WorkItem& item = plan.items()[index];
  PageBatches batches(RunsOf(batch, plan.tile(item)), plan.spans(item), plan.tile(item).kv_head);
  PageBatch first;
  if (batches.Next(&first)) PrefetchAhead(first, last);
}

// Walks the batches of an item that its vectors see; each knows what to prefetch.
class ItemBatches {
 public:
  ItemBatches(const AttentionBatch& batch, const WorkPlan& plan, std::size_t item,
              std::size_t next_item)
      : batch_(batch),
        plan_(plan),
        next_item_(next_item),
        batches_(RunsOf(batch, plan.tile(plan.items()[item])), plan.spans(plan.items()[item]),
                 plan.tile(plan.items()[item]).kv_head),
        more_(batches_.Next(&ahead_)) {}

  // Gives the next one and which of its slots are visible, with their positions in the state.
  // Returns false at the end.
  bool Next(TileState* state, PageBatch* pages, Visibility* visibility) {
    while (more_) {
      *pages = ahead_;
      more_ = batches_.Next(&ahead_);
      if (more_) {
        PrefetchAhead(ahead_, pages);
      } else {
        PrefetchItem(batch_, plan_, next_item_, pages);
      }
      *visibility = ResolveVisibility(*pages, state->view, state->positions);
      if (*visibility != Visibility::kNone) return true;
    }
    return false;
  }

 private:
  const AttentionBatch& batch_;
  const WorkPlan& plan_;
  std::size_t next_item_;
  PageBatches batches_;
  PageBatch ahead_;
  bool more_;
};

// The online softmax over an item. For few vectors the scores of a batch come before the values of
// the batch ahead of it: the processor then has work while it waits for maxima and sums of a few
// numbers, in which each step needs the last one's result.
void ComputeItem(const AttentionKernels& kernels, const AttentionShape& shape, ItemBatches* batches,
                 TileState* state) {
  const bool overlap = state->vectors <= kMaxFewVectors;
  PageBatch current;
  PageBatch next{};
  Visibility visibility = Visibility::kNone;
  if (!batches->Next(state, &current, &visibility)) return;
  ComputeScores(kernels, current, shape.head_dim, state);
  for (bool more = true; more; current = next) {
    UpdateSoftmax(kernels, shape, current.keys.pages, visibility == Visibility::kSome, state);
    const float* weights = state->scores;
    more = batches->Next(state, &next, &visibility);
    if (more && overlap) {
      state->SwitchScores();
      ComputeScores(kernels, next, shape.head_dim, state);
    }
    AddValues(kernels, current, weights, shape.head_dim, state);
    if (more && !overlap) ComputeScores(kernels, next, shape.head_dim, state);
  }
}

}  // namespace

void RunPartial(const AttentionKernels& kernels, const AttentionBatch& batch, const WorkPlan& plan,
                const AttentionTeam& team) {
  const AttentionShape& shape = batch.shape;
  TileState state;
  int loaded_tile = -1;
  std::size_t i = 0;
  for (std::size_t round = 0; (i = WorkPlan::ItemOf(round, team)) < plan.items().size(); ++round) {
    const WorkItem& item = plan.items()[i];
    const RowTile& tile = plan.tile(item);
    // Turning to and fro rounds: what an item begins with must not depend on which ones the thread
    // did before.
    if (item.tile != loaded_tile || state.queries_turned) {
      LoadQueries(batch, {plan.rows(tile), tile.kv_head}, &state);
      state.tiled = kernels.tiles != nullptr && state.vectors > kMaxFewVectors;
    }
    loaded_tile = item.tile;
    const TileLease lease(state.tiled ? kernels.tiles : nullptr);
    ResetSoftmax(shape.head_dim, &state);
    ItemBatches batches(batch, plan, i, WorkPlan::ItemOf(round + 1, team));
    ComputeItem(kernels, shape, &batches, &state);
    StoreTile(batch, plan, item, team.scratch, &state);
  }
}

}  // namespace swiftkv
