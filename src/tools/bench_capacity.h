// SPDX-License-Identifier: Apache-2.0
// Measures the rows of `bench capacity`.
//
// Every row serves the same requests on the same model with an engine and a cache of its own, one
// row after the other.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "swiftkv/status.h"
#include "tools/bench_capacity_options.h"
#include "tools/bench_capacity_requests.h"

namespace swiftkv {

struct CapacityRow {
  std::string allocator;
  std::string format;
  int reservations = 0;
  std::uint64_t memory_bytes = 0;  // the cache's bound
  CapacityFigures figures;
};

struct CapacityBenchResult {
  std::string model;  // path
  std::string architecture;
  int threads = 0;
  double mean_prompt = 0;  // tokens of a request, the shared ones included
  double mean_output = 0;
  std::vector<CapacityRow> rows;
};

// Called with the share that is done and what is being measured; returning false ends the bench
// early, with the rows so far.
using CapacityBenchProgress = std::function<bool(double done, const std::string& row)>;

// Errors: those of loading; Unsupported where the kernels do not compute a format;
// ResourceExhausted.
Result<CapacityBenchResult> RunCapacityBench(const BenchCapacityOptions& options,
                                             const CapacityBenchProgress& progress);

}  // namespace swiftkv
