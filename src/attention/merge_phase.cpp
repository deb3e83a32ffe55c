// SPDX-License-Identifier: Apache-2.0
// Combines the partial results of rows that see several chunks.
//
// Chunks c with maximum m_c, sum of weights l_c and weighted sum o_c give m = max m_c and, with
// w_c = 2^(m_c - m), the sum of w_c l_c and the weighted sum of w_c o_c. Sums of rotated values are
// added up by themselves and turned once (formats/hadamard.h).
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/phases.h"
#include "attention/tile_state.h"
#include "formats/hadamard.h"

namespace swiftkv {
namespace {

void MergeVector(const AttentionBatch& batch, const WorkPlan& plan, const MergedRow& row, int head,
                 std::byte* scratch) {
  const int head_dim = batch.shape.head_dim;
  const int group = plan.group();
  const auto partial = [&](int chunk) {
    return plan.partial(scratch,
                        row.first_partial + static_cast<std::size_t>(chunk * group + head));
  };
  float max = -std::numeric_limits<float>::infinity();
  for (int chunk = 0; chunk < row.num_chunks; ++chunk) {
    max = std::max(max, partial(chunk)[head_dim]);
  }
  alignas(64) float weighted[kMaxHeadDim] = {};
  alignas(64) float rotated[kMaxHeadDim] = {};
  bool any_rotated = false;
  float sum = 0;
  for (int chunk = 0; chunk < row.num_chunks; ++chunk) {
    const float* result = partial(chunk);
    const float chunk_sum = result[head_dim + 1];
    if (chunk_sum == 0) continue;  // saw nothing: its maximum is -inf
    const float weight = std::exp2(result[head_dim] - max);
    sum += weight * chunk_sum;
    const bool is_rotated = result[head_dim + 2] != 0;
    any_rotated = any_rotated || is_rotated;
    float* total = is_rotated ? rotated : weighted;
    for (int i = 0; i < head_dim; ++i) total[i] += weight * result[i];
  }
  if (any_rotated) {
    RotateRow(rotated, head_dim);
    for (int i = 0; i < head_dim; ++i) weighted[i] += rotated[i];
  }
  StoreVector(batch, {row.batch_row, row.kv_head * group + head, weighted, max, sum});
}

}  // namespace

void RunMerge(const AttentionBatch& batch, const WorkPlan& plan, const AttentionTeam& team) {
  int job = 0;
  for (const MergedRow& row : plan.merged_rows()) {
    for (int head = 0; head < plan.group(); ++head) {
      if (job++ % team.num_threads != team.thread) continue;
      MergeVector(batch, plan, row, head, team.scratch);
    }
  }
}

}  // namespace swiftkv
