// SPDX-License-Identifier: Apache-2.0
// Words the figures of `bench model`: one JSON line for programs, a table for people.
#pragma once

#include <string>

#include "tools/bench_model.h"

namespace swiftkv {

// Returns the JSON object without a line break (docs/json.md).
std::string ModelBenchJson(const ModelBenchResult& result, const BenchModelOptions& options);

// Returns a line on the model and a table.
std::string ModelBenchText(const ModelBenchResult& result, const BenchModelOptions& options);

}  // namespace swiftkv
