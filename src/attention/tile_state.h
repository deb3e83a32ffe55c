// SPDX-License-Identifier: Apache-2.0
// Holds what one thread needs to work on one tile, and moves queries in and results out.
//
// About 600 KiB, made on the stack of the thread that works, so that no two threads share a line
// and nothing is allocated during a step; only the part that a tile uses is touched. A query vector
// is a (row, head of the group) pair: vector = row * group + head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "attention/kernels.h"
#include "attention/page_batches.h"
#include "attention/tile_kernels.h"
#include "attention/work_plan.h"
#include "swiftkv/attention.h"

namespace swiftkv {

struct alignas(64) TileState {
  float queries[kMaxTileVectors * kRowStride];  // [vectors, kRowStride], scaled, in units of ln 2
  float out[kMaxTileVectors * kRowStride];      // [vectors, kRowStride] weighted sums
  float score_buffer[kMaxTileVectors * kBatchTokens];  // see `scores`
  float other_score_buffer[kMaxFewVectors * kBatchTokens];
  float sums[kMaxTileVectors * 16];  // [vectors, 16] lanes of the sum of weights
  float max[kMaxTileVectors];
  std::int32_t first_visible[kMaxTileVectors];
  std::int32_t last_visible[kMaxTileVectors];
  std::int32_t positions[kBatchTokens];
  // [head_dim, 64] keys, then [64, head_dim] values of a batch; tiles of many vectors. One buffer
  // for both stays in the first cache.
  float unpacked[kMaxHeadDim * kBatchTokens];
  std::int8_t query_limbs[kMaxTileVectors * 2 * kMaxHeadDim];
  float query_scales[kMaxTileVectors];
  std::int32_t query_sums[kMaxTileVectors * 2];
  std::uint16_t query_halves[kMaxTileVectors * 2 * kMaxHeadDim];
  float half_scales[kMaxTileVectors * 2];
  TileBuffers tile_buffers;  // matrix units only
  float* scores;             // [vectors, 64] of a batch, in one of the two buffers
  int vectors;
  TileView view;
  bool tiled;             // computed in matrix registers
  bool queries_rotated;   // queries are those of rotated keys
  bool queries_turned;    // were rotated, once or to and fro, since LoadQueries
  bool queries_prepared;  // the kernels' own form of them is that of `queries`
  bool out_rotated;       // out is of rotated values
  bool out_empty;         // nothing was added since ResetSoftmax

  // Left uninitialised: Load fills what a tile uses.
  TileState() : scores(score_buffer) {}

  // Keeps the scores of a batch beside those of the one before. Few vectors only.
  void SwitchScores() { scores = scores == score_buffer ? other_score_buffer : score_buffer; }

  QueryTile query_tile(int head_dim) {
    return {.rows = queries,
            .bytes = {query_limbs, query_scales, query_sums},
            .halves = {query_halves, half_scales},
            .vectors = vectors,
            .head_dim = head_dim};
  }
};

// Rows and the kv head whose group of query heads they are taken for.
struct TileQueries {
  std::span<const TileRow> rows;
  int kv_head;
};

// Fills queries, visible positions and view, not tiled; the rest is as ResetSoftmax leaves it.
void LoadQueries(const AttentionBatch& batch, const TileQueries& queries, TileState* state);

// Makes queries those of rotated keys or of plain ones, whatever they are, and ready for the
// kernels (formats/hadamard.h).
void TurnQueries(const AttentionKernels& kernels, int head_dim, bool rotated, TileState* state);

// Makes the weighted sums those of rotated values or of plain ones, whatever they are: a sum over
// pages of both kinds is turned where the kind changes.
void TurnSums(int head_dim, bool rotated, TileState* state);

// Starts an online softmax: no maximum, sums of zero.
void ResetSoftmax(int head_dim, TileState* state);

// Writes the item's result: to out and lse for rows that see no other chunk, else to the rows'
// partial results.
void StoreTile(const AttentionBatch& batch, const WorkPlan& plan, const WorkItem& item,
               std::byte* scratch, TileState* state);

// Writes one finished query vector: weighted sum / sum, and the log-sum-exp. A sum of zero, from a
// vector that saw nothing, gives zeros and -inf.
struct FinishedVector {
  int batch_row;
  int head;               // query head
  const float* weighted;  // [head_dim]
  float max;              // in units of ln 2
  float sum;
};
void StoreVector(const AttentionBatch& batch, const FinishedVector& finished);

}  // namespace swiftkv
