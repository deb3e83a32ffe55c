// SPDX-License-Identifier: Apache-2.0
// Measures and prints.
#include "tools/bench_engine_command.h"

#include <string>

#include "base/status_macros.h"
#include "tools/bench_engine.h"
#include "tools/bench_engine_report.h"
#include "tools/exit_status.h"
#include "tools/failure_report.h"
#include "tools/interrupt.h"
#include "tools/progress_line.h"
#include "tools/standard_output.h"

namespace swiftkv {
namespace {

Result<EngineBenchResult> Measure(const BenchEngineOptions& options) {
  ProgressLine progress("measuring", !options.json);
  return RunEngineBench(options, [&](double done, const std::string& next) {
    progress.Update(done, next);
    return !Interrupted();
  });
}

Result<int> Run(const BenchEngineOptions& options) {
  SKV_ASSIGN_OR_RETURN(const EngineBenchResult result, Measure(options));
  StandardOutput output;
  output.Write(options.json ? EngineBenchJson(result, options) + "\n"
                            : EngineBenchText(result, options));
  SKV_RETURN_IF_ERROR(output.status());
  return Interrupted() ? kExitInterrupted : kExitSuccess;
}

}  // namespace

int BenchEngineCommand(std::span<const char* const> arguments) {
  const Result<BenchEngineOptions> options = ParseBenchEngineOptions(arguments);
  if (!options.ok()) return ReportUsage("bench engine", options.status());
  const Result<int> exit_status = Run(*options);
  return exit_status.ok() ? *exit_status : ReportFailure("bench engine", exit_status.status());
}

}  // namespace swiftkv
