// SPDX-License-Identifier: Apache-2.0
// Measures and prints.
#include "tools/bench_attention_command.h"

#include <fmt/format.h>

#include <string>

#include "base/status_macros.h"
#include "tools/bench_attention.h"
#include "tools/bench_attention_report.h"
#include "tools/exit_status.h"
#include "tools/failure_report.h"
#include "tools/interrupt.h"
#include "tools/progress_line.h"
#include "tools/standard_output.h"

namespace swiftkv {
namespace {

Result<AttentionBenchResult> Measure(const BenchAttentionOptions& options) {
  ProgressLine progress("measuring", !options.json);
  return RunAttentionBench(options, [&](double done, const AttentionCase& next) {
    progress.Update(done, fmt::format("{} {} {}", BenchPhaseName(next.phase), next.format,
                                      next.pages.shape.head_dim));
    return !Interrupted();
  });
}

Result<int> Run(const BenchAttentionOptions& options) {
  SKV_ASSIGN_OR_RETURN(const AttentionBenchResult result, Measure(options));
  StandardOutput output;
  output.Write(options.json ? AttentionBenchJson(result, options) + "\n"
                            : AttentionBenchText(result));
  SKV_RETURN_IF_ERROR(output.status());
  return Interrupted() ? kExitInterrupted : kExitSuccess;
}

}  // namespace

int BenchAttentionCommand(std::span<const char* const> arguments) {
  const Result<BenchAttentionOptions> options = ParseBenchAttentionOptions(arguments);
  if (!options.ok()) return ReportUsage("bench attention", options.status());
  const Result<int> exit_status = Run(*options);
  return exit_status.ok() ? *exit_status : ReportFailure("bench attention", exit_status.status());
}

}  // namespace swiftkv
