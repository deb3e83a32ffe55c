// SPDX-License-Identifier: Apache-2.0
// Says where a sequence stands with what it forgets. Layer: engine.
//
// A sequence that has lost its place starts anew, and comes the same way.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/compaction_job.h"
#include "engine/query_capture.h"

namespace swiftkv {

// Whose queries a policy looks at that needs their statistics.
enum class QueryOrigin : std::uint8_t {
  kUndecided,
  kOwn,    // those of the tokens that are scored
  kModel,  // those that were measured of the model, for most of the tokens were found in the cache
};

struct ForgettingState {
  // Length at the last compaction, or that of a segment that was taken; 0: none.
  std::int64_t last = 0;
  // Length at which the next one is due, before which nothing more is computed; 0: none.
  std::int64_t next = 0;
  std::unique_ptr<QueryCapture> queries;  // of what is to be scored, where the policy needs them
  std::unique_ptr<CompactionJob> job;     // the one that is due now
  std::vector<float> logits;              // of the last row; what they say is told after the job
};

}  // namespace swiftkv
