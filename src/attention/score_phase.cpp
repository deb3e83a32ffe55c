// SPDX-License-Identifier: Apache-2.0
// Adds up the probabilities that slots got, from the log-sum-exp of every row.
//
// K is read a second time: the sums are asked for rarely, and keeping scores would cost every step.
#include <algorithm>
#include <cstddef>

#include "attention/phases.h"
#include "attention/tile_state.h"

namespace swiftkv {
namespace {

constexpr int kVectorsAtOnce = 16;

struct SlotBlock {
  int kv_head;
  PageBatch pages;
  float* sums;  // [tokens]
};

// Adds to one block of slots from all rows of the sequence, in the order of rows.
void ScoreBlock(const AttentionKernels& kernels, const AttentionBatch& batch, int sequence_index,
                const SlotBlock& block, TileState* state) {
  const AttentionShape& shape = batch.shape;
  const AttentionSequence& sequence = batch.sequences[static_cast<std::size_t>(sequence_index)];
  const int group = shape.num_heads / shape.num_kv_heads;
  const int rows_at_once = std::max(kVectorsAtOnce / group, 1);
  const int pages = block.pages.keys.pages;
  float sums[kBatchTokens] = {};
  float lse[kMaxTileVectors];
  TileRow rows[kVectorsAtOnce];
  for (int row = 0; row < sequence.num_rows; row += rows_at_once) {
    const int count = std::min(rows_at_once, sequence.num_rows - row);
    for (int i = 0; i < count; ++i) {
      rows[i] = {.position = sequence.first_position + row + i,
                 .first_partial = 0,
                 .batch_row = sequence.first_row + row + i,
                 .only_chunk = true};
    }
    LoadQueries(batch, {{rows, static_cast<std::size_t>(count)}, block.kv_head}, state);
    const Visibility visibility = ResolveVisibility(block.pages, state->view, state->positions);
    if (visibility == Visibility::kNone) continue;
    TurnQueries(kernels, shape.head_dim, block.pages.run->format.key->info().rotated, state);
    for (int v = 0; v < state->vectors; ++v) {
      const auto batch_row = static_cast<std::size_t>(sequence.first_row + row + v / group);
      lse[v] = kLog2E * batch.lse[batch_row * shape.num_heads + block.kv_head * group + v % group];
    }
    kernels.dot[block.pages.key_format()](state->query_tile(shape.head_dim), block.pages.keys,
                                          state->scores);
    kernels.adjust_scores(
        {.scores = state->scores,
         .vectors = state->vectors,
         .pages = pages,
         .softcap = shape.softcap * kLog2E,
         .positions = visibility == Visibility::kSome ? state->positions : nullptr,
         .first_visible = state->first_visible,
         .last_visible = state->last_visible});
    kernels.tally(state->scores, lse, state->vectors, pages, sums);
  }
  std::copy_n(sums, block.pages.tokens, block.sums);
}

}  // namespace

void RunScore(const AttentionKernels& kernels, const AttentionBatch& batch, const WorkPlan&,
              const AttentionTeam& team) {
  TileState state;
  int job = 0;
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    const std::span<float> sums = batch.sink->sums[s];
    if (sums.empty()) continue;
    const std::span<const PageRun> runs = batch.sequences[s].runs;
    std::size_t slots = 0;
    for (const PageRun& run : runs) slots += static_cast<std::size_t>(run.num_tokens);
    std::size_t run_start = 0;
    for (const PageRun& run : runs) {
      const int end_page = (run.num_tokens + kPageTokens - 1) / kPageTokens;
      for (int head = run.first_head; head < run.end_head; ++head) {
        for (int page = 0; page < end_page; page += kBatchPages) {
          if (job++ % team.num_threads != team.thread) continue;
          float* block_sums = sums.data() + static_cast<std::size_t>(head) * slots + run_start +
                              static_cast<std::size_t>(page) * kPageTokens;
          ScoreBlock(kernels, batch, static_cast<int>(s),
                     {head, BatchAt(run, head, page, end_page), block_sums}, &state);
        }
      }
      run_start += static_cast<std::size_t>(run.num_tokens);
    }
  }
}

}  // namespace swiftkv
