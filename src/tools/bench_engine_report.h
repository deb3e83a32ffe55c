// SPDX-License-Identifier: Apache-2.0
// Words the figures of `bench engine`: one JSON line for programs, tables for people.
#pragma once

#include <string>

#include "tools/bench_engine.h"

namespace swiftkv {

// Returns the JSON object without a line break (docs/json.md).
std::string EngineBenchJson(const EngineBenchResult& result, const BenchEngineOptions& options);

// Returns a line on the model and the tables.
std::string EngineBenchText(const EngineBenchResult& result, const BenchEngineOptions& options);

}  // namespace swiftkv
