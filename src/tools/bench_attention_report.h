// SPDX-License-Identifier: Apache-2.0
// Words the figures of `bench attention`: one JSON line for programs, tables for people.
#pragma once

#include <string>

#include "tools/bench_attention.h"

namespace swiftkv {

// Returns the JSON object without a line break (docs/json.md).
std::string AttentionBenchJson(const AttentionBenchResult& result,
                               const BenchAttentionOptions& options);

// Returns a paragraph on the machine and one table for each phase.
std::string AttentionBenchText(const AttentionBenchResult& result);

}  // namespace swiftkv
