// SPDX-License-Identifier: Apache-2.0
// Measures and prints.
#include "tools/bench_capacity_command.h"

#include <string>

#include "base/status_macros.h"
#include "tools/bench_capacity.h"
#include "tools/bench_capacity_report.h"
#include "tools/exit_status.h"
#include "tools/failure_report.h"
#include "tools/interrupt.h"
#include "tools/progress_line.h"
#include "tools/standard_output.h"

namespace swiftkv {
namespace {

Result<CapacityBenchResult> Measure(const BenchCapacityOptions& options) {
  ProgressLine progress("measuring", !options.json);
  return RunCapacityBench(options, [&](double done, const std::string& row) {
    progress.Update(done, row);
    return !Interrupted();
  });
}

Result<int> Run(const BenchCapacityOptions& options) {
  SKV_ASSIGN_OR_RETURN(const CapacityBenchResult result, Measure(options));
  StandardOutput output;
  output.Write(options.json ? CapacityBenchJson(result, options) + "\n"
                            : CapacityBenchText(result, options));
  SKV_RETURN_IF_ERROR(output.status());
  return Interrupted() ? kExitInterrupted : kExitSuccess;
}

}  // namespace

int BenchCapacityCommand(std::span<const char* const> arguments) {
  const Result<BenchCapacityOptions> options = ParseBenchCapacityOptions(arguments);
  if (!options.ok()) return ReportUsage("bench capacity", options.status());
  const Result<int> exit_status = Run(*options);
  return exit_status.ok() ? *exit_status : ReportFailure("bench capacity", exit_status.status());
}

}  // namespace swiftkv
