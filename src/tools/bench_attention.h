// SPDX-License-Identifier: Apache-2.0
// Measures the rows of `bench attention`.
//
// What is compared is measured in turn: in each round a plain read of as many bytes, a plain read
// of the same pages and the kernels, so that a machine that slows down slows all of them. A row's
// fractions are medians over rounds.
#pragma once

#include <functional>
#include <vector>

#include "swiftkv/status.h"
#include "tools/bench_attention_options.h"
#include "tools/bench_attention_rows.h"
#include "tools/bench_machine.h"

namespace swiftkv {

struct AttentionBenchResult {
  MachineFigures machine;
  std::vector<AttentionRow> rows;
};

// Called before each row with the share that is done; returning false ends the bench early, with
// the rows so far.
using BenchProgress = std::function<bool(double done, const AttentionCase& next)>;

// Errors: InvalidArgument or Unsupported for options that cannot work, ResourceExhausted.
Result<AttentionBenchResult> RunAttentionBench(const BenchAttentionOptions& options,
                                               const BenchProgress& progress);

}  // namespace swiftkv
