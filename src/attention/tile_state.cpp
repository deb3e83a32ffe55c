// SPDX-License-Identifier: Apache-2.0
// Gathers a tile's query vectors and scatters its results.
#include "attention/tile_state.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/hadamard.h"

namespace swiftkv {
namespace {

constexpr std::int32_t kLowestPosition = std::numeric_limits<std::int32_t>::min();

// Returns the index of a query vector in [rows, num_heads].
std::size_t HeadIndex(const AttentionBatch& batch, int batch_row, int head) {
  return static_cast<std::size_t>(batch_row) * batch.shape.num_heads + head;
}

float SumLanes(const float* lanes) {
  float sums[8];
  for (int i = 0; i < 8; ++i) sums[i] = lanes[i] + lanes[i + 8];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

void RotateRows(float* rows, int count, int head_dim) {
  for (int v = 0; v < count; ++v) RotateRow(rows + v * kRowStride, head_dim);
}

}  // namespace

void LoadQueries(const AttentionBatch& batch, const TileQueries& queries, TileState* state) {
  const AttentionShape& shape = batch.shape;
  const int group = shape.num_heads / shape.num_kv_heads;
  const float scale = shape.scale * kLog2E;
  state->vectors = static_cast<int>(queries.rows.size()) * group;
  state->view = {.first_position = queries.rows.front().position,
                 .last_position = queries.rows.front().position,
                 .window = shape.window};
  int v = 0;
  for (const TileRow& row : queries.rows) {
    state->view.first_position = std::min(state->view.first_position, row.position);
    state->view.last_position = std::max(state->view.last_position, row.position);
    for (int head = 0; head < group; ++head, ++v) {
      const std::size_t index = HeadIndex(batch, row.batch_row, queries.kv_head * group + head);
      const float* query = batch.q + index * shape.head_dim;
      float* scaled = state->queries + v * kRowStride;
      for (int i = 0; i < shape.head_dim; ++i) scaled[i] = query[i] * scale;
      state->last_visible[v] = static_cast<std::int32_t>(row.position);
      state->first_visible[v] = shape.window > 0
                                    ? static_cast<std::int32_t>(row.position - shape.window + 1)
                                    : kLowestPosition;
    }
  }
  state->tiled = false;
  state->queries_rotated = false;
  state->queries_turned = false;
  state->queries_prepared = false;
}

void TurnQueries(const AttentionKernels& kernels, int head_dim, bool rotated, TileState* state) {
  if (state->queries_rotated != rotated) {
    RotateRows(state->queries, state->vectors, head_dim);
    state->queries_rotated = rotated;
    state->queries_turned = true;
    state->queries_prepared = false;
  }
  if (state->queries_prepared) return;
  state->queries_prepared = true;
  if (state->tiled) {
    kernels.tiles->load_queries(state->queries, state->vectors, head_dim, &state->tile_buffers);
  } else if (kernels.prepare_queries != nullptr) {
    kernels.prepare_queries(state->query_tile(head_dim));
  }
}

void TurnSums(int head_dim, bool rotated, TileState* state) {
  if (state->out_rotated != rotated && !state->out_empty) {
    RotateRows(state->out, state->vectors, head_dim);
  }
  state->out_rotated = rotated;
}

void ResetSoftmax(int head_dim, TileState* state) {
  const int vectors = state->vectors;
  state->scores = state->score_buffer;
  std::fill_n(state->max, vectors, -std::numeric_limits<float>::infinity());
  std::fill_n(state->sums, vectors * 16, 0.0F);
  for (int v = 0; v < vectors; ++v) std::fill_n(state->out + v * kRowStride, head_dim, 0.0F);
  state->out_rotated = false;
  state->out_empty = true;
}

void StoreVector(const AttentionBatch& batch, const FinishedVector& finished) {
  const std::size_t index = HeadIndex(batch, finished.batch_row, finished.head);
  const int head_dim = batch.shape.head_dim;
  float* out = batch.out + index * head_dim;
  const bool saw_any = finished.sum > 0;
  const float factor = saw_any ? 1.0F / finished.sum : 0.0F;
  for (int i = 0; i < head_dim; ++i) out[i] = finished.weighted[i] * factor;
  if (batch.lse != nullptr) {
    batch.lse[index] = saw_any ? kLn2 * (finished.max + std::log2(finished.sum))
                               : -std::numeric_limits<float>::infinity();
  }
}

void StoreTile(const AttentionBatch& batch, const WorkPlan& plan, const WorkItem& item,
               std::byte* scratch, TileState* state) {
  const RowTile& tile = plan.tile(item);
  const int head_dim = batch.shape.head_dim;
  const int group = plan.group();
  int v = 0;
  for (const TileRow& row : plan.rows(tile)) {
    const std::size_t first_partial =
        row.first_partial + static_cast<std::size_t>(item.chunk * group);
    for (int head = 0; head < group; ++head, ++v) {
      float* weighted = state->out + v * kRowStride;
      const float sum = SumLanes(state->sums + v * 16);
      if (row.only_chunk) {
        if (state->out_rotated) RotateRow(weighted, head_dim);
        StoreVector(batch,
                    {row.batch_row, tile.kv_head * group + head, weighted, state->max[v], sum});
        continue;
      }
      float* partial = plan.partial(scratch, first_partial + static_cast<std::size_t>(head));
      std::copy_n(weighted, head_dim, partial);
      partial[head_dim] = state->max[v];
      partial[head_dim + 1] = sum;
      partial[head_dim + 2] = state->out_rotated ? 1.0F : 0.0F;
    }
  }
}

}  // namespace swiftkv
