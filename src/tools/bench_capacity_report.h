// SPDX-License-Identifier: Apache-2.0
// Words the figures of `bench capacity`: one JSON line for programs, a table for people.
#pragma once

#include <string>

#include "tools/bench_capacity.h"

namespace swiftkv {

// Returns the JSON object without a line break (docs/json.md).
std::string CapacityBenchJson(const CapacityBenchResult& result,
                              const BenchCapacityOptions& options);

// Returns a line on model and requests, and a table.
std::string CapacityBenchText(const CapacityBenchResult& result,
                              const BenchCapacityOptions& options);

}  // namespace swiftkv
