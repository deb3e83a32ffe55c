// SPDX-License-Identifier: Apache-2.0
// Holds what the scheduler knows of one running request, and plans its next step. Layer: engine.
//
// Planning is pure: it reads this state and the limits, never the cache or a clock.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/step_plan.h"

namespace swiftkv {

struct SequenceState {
  RequestId request{};
  SequenceId sequence{};
  std::vector<TokenId> tokens;  // prompt, then the reply as it grows
  std::size_t prompt_tokens = 0;
  std::size_t computed = 0;  // tokens in the cache; below tokens.size() while there is work
  std::size_t end = 0;       // of what can be computed now: a compaction comes next; 0: all
  Quality allowed = Quality::kExact;

  bool InPrefill() const { return computed < prompt_tokens; }
};

// Plans the next at most `max_rows` tokens of one request. Logits are wanted where the slice
// reaches the last token. An empty plan: nothing is left to compute.
StepPlan PlanStep(const SequenceState& state, std::size_t max_rows);

}  // namespace swiftkv
