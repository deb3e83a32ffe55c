// SPDX-License-Identifier: Apache-2.0
// Cuts a request's outstanding tokens into steps.
#include "engine/sequence_state.h"

#include <algorithm>

namespace swiftkv {

StepPlan PlanStep(const SequenceState& state, std::size_t max_rows) {
  StepPlan plan;
  const std::size_t known = state.tokens.size();
  const std::size_t end = state.end > 0 ? std::min(state.end, known) : known;
  const std::size_t rows = std::min(max_rows, end - state.computed);
  if (rows == 0) return plan;
  const auto first = state.tokens.begin() + static_cast<std::ptrdiff_t>(state.computed);
  plan.tokens.assign(first, first + static_cast<std::ptrdiff_t>(rows));

  PlannedSlice slice;
  slice.request = state.request;
  slice.is_prefill = state.InPrefill();
  slice.allowed = state.allowed;
  slice.rows.sequence = state.sequence;
  slice.rows.first_position = static_cast<std::int64_t>(state.computed);
  slice.rows.num_rows = static_cast<int>(rows);
  slice.rows.num_outputs = state.computed + rows == known ? 1 : 0;
  plan.slices.push_back(slice);
  return plan;
}

}  // namespace swiftkv
