// SPDX-License-Identifier: Apache-2.0
// Words the figures of `bench serve`: one JSON line with the key names of vLLM's serving benchmark,
// a table for people.
#pragma once

#include <string>

#include "tools/bench_serve_figures.h"
#include "tools/bench_serve_options.h"
#include "tools/bench_serve_run.h"

namespace swiftkv {

// Returns the JSON object without a line break (docs/json.md).
std::string BenchServeJson(const ServeLoadResult& result, const ServeFigures& figures,
                           const BenchServeOptions& options);

std::string BenchServeText(const ServeLoadResult& result, const ServeFigures& figures,
                           const BenchServeOptions& options);

// Returns what failed, as "3 http_429 (the queue is full), 1 timeout (...)"; empty where nothing
// did.
std::string FailureSummary(const ServeFigures& figures);

}  // namespace swiftkv
