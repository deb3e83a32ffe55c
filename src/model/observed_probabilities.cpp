// SPDX-License-Identifier: Apache-2.0
// Attends with kept queries once more, for the sake of the sums.
#include "model/observed_probabilities.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/check.h"

namespace swiftkv {

Status SumProbabilities(const AttentionBackend& backend, const ObservedLayer& observed,
                        std::span<float> sums) {
  std::size_t slots = 0;
  for (const PageRun& run : observed.runs) slots += static_cast<std::size_t>(run.num_tokens);
  const AttentionShape& shape = observed.shape;
  SKV_CHECK(sums.size() == slots * static_cast<std::size_t>(shape.num_kv_heads));
  std::fill(sums.begin(), sums.end(), 0.0F);
  const int rows = observed.queries.count(observed.layer);
  if (rows == 0) return Status::Ok();
  const auto vectors = static_cast<std::size_t>(rows) * static_cast<std::size_t>(shape.num_heads);
  std::vector<float> q(vectors * static_cast<std::size_t>(shape.head_dim));
  observed.queries.Copy(observed.layer, q);
  std::vector<float> out(q.size());
  std::vector<float> lse(vectors);
  const AttentionSequence sequence{
      .runs = observed.runs,
      .first_row = 0,
      .num_rows = rows,
      .first_position = observed.queries.first_position(observed.layer)};
  const ScoreSink sink{.sums = {&sums, 1}};
  const AttentionBatch batch{.shape = shape,
                             .sequences = {&sequence, 1},
                             .q = q.data(),
                             .out = out.data(),
                             .lse = lse.data(),
                             .sink = &sink};
  return Attend(backend, batch, observed.threads);
}

}  // namespace swiftkv
