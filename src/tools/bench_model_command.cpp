// SPDX-License-Identifier: Apache-2.0
// Measures and prints.
#include "tools/bench_model_command.h"

#include <string>

#include "base/status_macros.h"
#include "tools/bench_model.h"
#include "tools/bench_model_report.h"
#include "tools/exit_status.h"
#include "tools/failure_report.h"
#include "tools/interrupt.h"
#include "tools/progress_line.h"
#include "tools/standard_output.h"

namespace swiftkv {
namespace {

Result<ModelBenchResult> Measure(const BenchModelOptions& options) {
  ProgressLine progress("measuring", !options.json);
  return RunModelBench(options, [&](double done, const std::string& next) {
    progress.Update(done, next);
    return !Interrupted();
  });
}

Result<int> Run(const BenchModelOptions& options) {
  SKV_ASSIGN_OR_RETURN(const ModelBenchResult result, Measure(options));
  StandardOutput output;
  output.Write(options.json ? ModelBenchJson(result, options) + "\n"
                            : ModelBenchText(result, options));
  SKV_RETURN_IF_ERROR(output.status());
  return Interrupted() ? kExitInterrupted : kExitSuccess;
}

}  // namespace

int BenchModelCommand(std::span<const char* const> arguments) {
  const Result<BenchModelOptions> options = ParseBenchModelOptions(arguments);
  if (!options.ok()) return ReportUsage("bench model", options.status());
  const Result<int> exit_status = Run(*options);
  return exit_status.ok() ? *exit_status : ReportFailure("bench model", exit_status.status());
}

}  // namespace swiftkv
