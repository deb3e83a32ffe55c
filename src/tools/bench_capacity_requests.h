// SPDX-License-Identifier: Apache-2.0
// Makes the requests of `bench capacity`, and serves them in one engine.
#pragma once

#include <functional>
#include <vector>

#include "engine/request_gate.h"
#include "swiftkv/engine.h"
#include "swiftkv/status.h"
#include "tools/bench_capacity_options.h"

namespace swiftkv {

struct CapacityRequest {
  std::vector<std::int32_t> prompt;
  int output = 0;  // tokens, exactly
};

// Returns the requests in the order of the queue: a shared beginning where the options say so, then
// random tokens of a vocabulary of this size. Equal options give equal requests.
Result<std::vector<CapacityRequest>> MakeCapacityRequests(const BenchCapacityOptions& options,
                                                          int vocabulary_size);

// What came of serving all requests. Rates and means of concurrency are those of the time in which
// somebody waited for a place; where nobody ever did, of the whole time.
struct CapacityFigures {
  int max_concurrent = 0;
  double mean_concurrent = 0;        // requests with a place in the cache, over time
  double tokens_per_s = 0;           // generated ones
  double whole_mean_concurrent = 0;  // of the whole time, the end without a queue included
  double whole_tokens_per_s = 0;
  double latency_mean_ms = 0;  // from the start, when all are submitted, to a request's end
  double latency_p99_ms = 0;
  double seconds = 0;            // of serving all requests
  double saturated_seconds = 0;  // of these, while somebody waited
  double forward_share = 0;      // of `seconds`, in forward passes; the rest schedules and samples
  std::uint64_t preemptions = 0;
  std::uint64_t cached_tokens = 0;  // of prompts, found in the cache
  std::uint64_t prompt_tokens = 0;
};

// Submits all requests at once, greedy and without an end but their length, and waits for the last.
// Called now and then with the share of tokens done; returning false ends it. Errors: Cancelled
// then; those of Submit and of requests.
Result<CapacityFigures> ServeCapacityRequests(const EngineParts& parts, EngineLimits limits,
                                              const std::vector<CapacityRequest>& requests,
                                              const std::function<bool(double done)>& progress);

}  // namespace swiftkv
