// SPDX-License-Identifier: Apache-2.0
// Measures the rows of `bench engine`.
//
// Prompts are tokens that differ from position to position and, behind what is shared, from request
// to request. Every measurement has a salt of its own, so that it finds nothing in the cache that
// an earlier one left; replies never end by themselves.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "swiftkv/status.h"
#include "tools/bench_engine_options.h"

namespace swiftkv {

// Names as in docs/json.md. Of a round, then the median of rounds.
struct EngineBatchRow {
  std::string format;
  double seconds = 0;  // from the first request to the end of the last reply
  double tokens_per_s = 0;
  double cached_tokens = 0;  // of all prompts
  double ttft_mean_ms = 0;
  double ttft_max_ms = 0;
  double gap_max_ms = 0;        // between two tokens of one reply
  double overhead = 0;          // of the engine's time, what is spent outside of forward passes
  double scheduling_share = 0;  // of that time once all generate
  double memory_share = 0;
  double sampling_share = 0;
  double kv_bytes = 0;        // the most that sequences held at once
  double unshared_bytes = 0;  // what they would hold if nothing were shared
};

struct EngineLateRow {
  std::string format;
  double gap_max_ms = 0;     // of the stream, from the long prompt's arrival to its first token
  double ttft_ms = 0;        // of the long prompt
  double ttft_alone_ms = 0;  // without the stream
};

struct EngineBenchResult {
  std::string model;  // path
  std::string architecture;
  int threads = 0;
  int chunk = 0;  // most tokens of a step
  std::vector<EngineBatchRow> batches;
  std::vector<EngineLateRow> late_prompts;
};

// Called before each part with the share that is done and what comes; returning false stops the
// bench.
using EngineBenchProgress = std::function<bool(double done, const std::string& next)>;

// Errors: those of loading and of the engine, InvalidArgument where prompts do not fit the model's
// context, Cancelled.
Result<EngineBenchResult> RunEngineBench(const BenchEngineOptions& options,
                                         const EngineBenchProgress& progress);

}  // namespace swiftkv
