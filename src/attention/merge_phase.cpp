// SPDX-License-Identifier: Apache-2.0
// Combines the partial results of tiles that were cut into chunks.
//
// Chunks c with maximum m_c, sum of weights l_c and weighted sum o_c give m = max m_c and, with
// w_c = 2^(m_c - m), the sum of w_c l_c and the weighted sum of w_c o_c.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/phases.h"
#include "attention/tile_state.h"

namespace swiftkv {
namespace {

void MergeVector(const AttentionBatch& batch, const WorkPlan& plan, const RowTile& tile, int vector,
                 std::byte* scratch) {
  const int head_dim = batch.shape.head_dim;
  float max = -std::numeric_limits<float>::infinity();
  for (int chunk = 0; chunk < tile.num_chunks; ++chunk) {
    max = std::max(max, plan.partial(scratch, tile, chunk, vector)[head_dim]);
  }
  alignas(64) float weighted[kMaxHeadDim] = {};
  float sum = 0;
  for (int chunk = 0; chunk < tile.num_chunks; ++chunk) {
    const float* partial = plan.partial(scratch, tile, chunk, vector);
    const float chunk_sum = partial[head_dim + 1];
    if (chunk_sum == 0) continue;  // saw nothing: its maximum is -inf
    const float weight = std::exp2(partial[head_dim] - max);
    sum += weight * chunk_sum;
    for (int i = 0; i < head_dim; ++i) weighted[i] += weight * partial[i];
  }
  StoreVector(batch, tile, vector, {weighted, max, sum});
}

}  // namespace

void RunMerge(const AttentionBatch& batch, const WorkPlan& plan, const AttentionTeam& team) {
  int job = 0;
  for (const RowTile& tile : plan.tiles()) {
    if (tile.num_chunks == 1) continue;
    for (int vector = 0; vector < plan.vectors(tile); ++vector) {
      if (job++ % team.num_threads != team.thread) continue;
      MergeVector(batch, plan, tile, vector, team.scratch);
    }
  }
}

}  // namespace swiftkv
