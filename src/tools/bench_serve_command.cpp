// SPDX-License-Identifier: Apache-2.0
// Loads, sums up and prints.
#include "tools/bench_serve_command.h"

#include <fmt/format.h>

#include <string>

#include "base/status_macros.h"
#include "tools/bench_serve_figures.h"
#include "tools/bench_serve_options.h"
#include "tools/bench_serve_report.h"
#include "tools/bench_serve_run.h"
#include "tools/exit_status.h"
#include "tools/failure_report.h"
#include "tools/interrupt.h"
#include "tools/progress_line.h"
#include "tools/standard_output.h"

namespace swiftkv {
namespace {

Result<ServeLoadResult> Load(const BenchServeOptions& options) {
  ProgressLine progress("loading", !options.report.json);
  return RunServeLoad(options, [&](double done, int ended, int under_way, int failed) {
    progress.Update(done,
                    fmt::format("{} ended, {} under way, {} failed", ended, under_way, failed));
    return !Interrupted();
  });
}

Result<int> Run(const BenchServeOptions& options) {
  SKV_ASSIGN_OR_RETURN(const ServeLoadResult result, Load(options));
  SKV_ASSIGN_OR_RETURN(const GoodputLimits limits, ParseGoodput(options.report.goodput));
  const ServeFigures figures = SumUp(result.records, result.duration, limits);
  if (figures.failed > 0 && figures.completed == 0 && !result.interrupted) {
    return Status::Internal(fmt::format("all {} requests to {} failed: {}", figures.failed,
                                        options.target.url, FailureSummary(figures)));
  }
  StandardOutput output;
  output.Write(options.report.json ? BenchServeJson(result, figures, options) + "\n"
                                   : BenchServeText(result, figures, options));
  SKV_RETURN_IF_ERROR(output.status());
  return result.interrupted ? kExitInterrupted : kExitSuccess;
}

}  // namespace

int BenchServeCommand(std::span<const char* const> arguments) {
  const Result<BenchServeOptions> options = ParseBenchServeOptions(arguments);
  if (!options.ok()) return ReportUsage("bench serve", options.status());
  const Result<int> exit_status = Run(*options);
  return exit_status.ok() ? *exit_status : ReportFailure("bench serve", exit_status.status());
}

}  // namespace swiftkv
