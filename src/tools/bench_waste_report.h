// SPDX-License-Identifier: Apache-2.0
// Words the figures of `bench waste`: one JSON line for programs, tables for people.
#pragma once

#include <string>

#include "tools/bench_waste.h"

namespace swiftkv {

// Returns the JSON object without a line break (docs/json.md).
std::string WasteBenchJson(const WasteBenchResult& result, const BenchWasteOptions& options);

// Returns a line on the requests, a table of the rows and one of block sizes.
std::string WasteBenchText(const WasteBenchResult& result, const BenchWasteOptions& options);

}  // namespace swiftkv
