// SPDX-License-Identifier: Apache-2.0
// States what one engine step does, as plain data: the scheduler writes it, the executor carries it
// out, and both can be tested without the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model_batch.h"
#include "swiftkv/kv_cache.h"
#include "swiftkv/quality.h"

namespace swiftkv {

enum class RequestId : std::uint64_t {};

// A request that gives its place up so that others can go on.
struct Preemption {
  RequestId request{};
  SequenceId sequence{};
};

// One sequence's share of the step.
struct PlannedSlice {
  RequestId request{};
  BatchSlice rows;
  bool is_prefill = false;
  Quality allowed = Quality::kExact;  // what the sequence may read
};

// Order of execution: cancel, preempt, then one forward pass over the slices.
struct StepPlan {
  std::vector<RequestId> cancelled;
  std::vector<Preemption> preempted;
  std::vector<TokenId> tokens;       // [rows]
  std::vector<PlannedSlice> slices;  // ascending first_row; decodes before prefill chunks

  bool empty() const { return slices.empty() && cancelled.empty() && preempted.empty(); }
};

}  // namespace swiftkv
