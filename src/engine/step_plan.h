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
#include "swiftkv/request.h"

namespace swiftkv {

// One sequence's share of the step.
struct PlannedSlice {
  RequestId request{};
  BatchSlice rows;
  bool is_prefill = false;
  Quality allowed = Quality::kExact;  // what the sequence may read
};

// One forward pass over the slices, whose rows were reserved before or are by the executor.
struct StepPlan {
  std::vector<TokenId> tokens;       // [rows]
  std::vector<PlannedSlice> slices;  // ascending first_row; decodes before prefill chunks

  bool empty() const { return slices.empty(); }
};

}  // namespace swiftkv
