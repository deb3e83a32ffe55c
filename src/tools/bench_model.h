// SPDX-License-Identifier: Apache-2.0
// Measures the rows of `bench model`.
//
// Contexts are computed once for each format, chunk by chunk in turn, and kept as forks. Then each
// round measures every format at every depth, formats in turn, so that a machine that slows down
// slows all of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "swiftkv/status.h"
#include "tools/bench_model_options.h"

namespace swiftkv {

// Names as in docs/json.md.
struct ModelRow {
  std::string format;
  int depth = 0;
  int batch = 1;
  int shared_tokens = 0;             // of `batch` sequences, at most the depth
  std::optional<double> prompt_tps;  // of computing the whole depth; none at 0
  double prefill_tps = 0;
  double prefill_attention_share = 0;  // of the time, in [0, 1]
  double decode_tps = 0;               // of all sequences together
  double decode_attention_share = 0;
  double busy = 0;  // of the time, what each thread got of a processor; below .95 others took it
};

struct ModelBenchResult {
  std::string model;  // path
  std::string architecture;
  int threads = 0;
  std::vector<ModelRow> rows;
};

// Called before each part with the share that is done and what comes; returning false ends the
// bench early, with the depths so far.
using ModelBenchProgress = std::function<bool(double done, const std::string& next)>;

// Errors: those of loading, InvalidArgument where depths do not fit the model's context,
// Unsupported where the kernels do not compute a format, ResourceExhausted.
Result<ModelBenchResult> RunModelBench(const BenchModelOptions& options,
                                       const ModelBenchProgress& progress);

}  // namespace swiftkv
