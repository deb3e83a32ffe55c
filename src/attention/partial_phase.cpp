// SPDX-License-Identifier: Apache-2.0
// Computes work items: an online softmax over the pages of a chunk, for the query vectors of a
// tile.
#include <cstddef>

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
                        .out_stride = state->stride,
                        .head_dim = shape.head_dim});
}

// Few query vectors: works on the stored format, the bytes are what costs.
void AttendStored(const AttentionKernels& kernels, const AttentionShape& shape,
                  const PageBatch& pages, bool masked, TileState* state) {
  kernels.dot[pages.key_format()](state->queries, state->vectors, shape.head_dim, pages.keys,
                                  state->scores);
  UpdateSoftmax(kernels, shape, pages.keys.pages, masked, state);
  kernels.weigh[pages.value_format()](state->scores, state->vectors, shape.head_dim, pages.values,
                                      pages.tokens, state->out);
}

// Many query vectors: unpacks once, the arithmetic is what costs.
void AttendUnpacked(const AttentionKernels& kernels, const AttentionShape& shape,
                    const PageBatch& pages, bool masked, TileState* state) {
  kernels.unpack_keys[pages.key_format()](pages.keys, shape.head_dim, state->unpacked);
  kernels.multiply({.a = state->queries,
                    .b = state->unpacked,
                    .c = state->scores,
                    .a_stride = state->stride,
                    .b_stride = kBatchTokens,
                    .c_stride = kBatchTokens,
                    .m = state->vectors,
                    .n = pages.keys.pages,
                    .k = shape.head_dim,
                    .accumulate = false,
                    .planes = &pages.keys});
  UpdateSoftmax(kernels, shape, pages.keys.pages, masked, state);
  kernels.unpack_values[pages.value_format()](pages.values, shape.head_dim, state->unpacked);
  kernels.multiply({.a = state->scores,
                    .b = state->unpacked,
                    .c = state->out,
                    .a_stride = kBatchTokens,
                    .b_stride = shape.head_dim,
                    .c_stride = state->stride,
                    .m = state->vectors,
                    .n = shape.head_dim / 16,
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

}  // namespace

void RunPartial(const AttentionKernels& kernels, const AttentionBatch& batch, const WorkPlan& plan,
                const AttentionTeam& team) {
  const AttentionShape& shape = batch.shape;
  const auto step = static_cast<std::size_t>(team.num_threads);
  TileState state;
  for (auto i = static_cast<std::size_t>(team.thread); i < plan.items().size(); i += step) {
    const WorkItem& item = plan.items()[i];
    const RowTile& tile = plan.tile(item);
    const bool few = plan.vectors(tile) <= kMaxFewVectors;
    LoadQueries(batch, {plan.rows(tile), tile.kv_head}, few ? kRowStride : shape.head_dim, &state);
    ResetSoftmax(shape.head_dim, &state);
    PageBatches batches(RunsOf(batch, tile), plan.spans(item), tile.kv_head);
    PageBatch current;
    PageBatch next;
    for (bool more = batches.Next(&current); more; current = next) {
      more = batches.Next(&next);
      if (more) {
        PrefetchAhead(next, &current);
      } else {
        PrefetchItem(batch, plan, i + step, &current);
      }
      const Visibility visibility = ResolveVisibility(current, state.view, state.positions);
      if (visibility == Visibility::kNone) continue;
      const bool masked = visibility == Visibility::kSome;
      if (few) {
        AttendStored(kernels, shape, current, masked, &state);
      } else {
        AttendUnpacked(kernels, shape, current, masked, &state);
      }
    }
    StoreTile(batch, plan, item, team.scratch, state);
  }
}

}  // namespace swiftkv
