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

Status Run(const BenchModelOptions& options) {
  SKV_ASSIGN_OR_RETURN(const ModelBenchResult result, Measure(options));
  StandardOutput output;
  output.Write(options.json ? ModelBenchJson(result, options) + "\n"
                            : ModelBenchText(result, options));
  return output.status();
}

}  // namespace

int BenchModelCommand(std::span<const char* const> arguments) {
  const Result<BenchModelOptions> options = ParseBenchModelOptions(arguments);
  if (!options.ok()) return ReportUsage("bench model", options.status());
  const Status status = Run(*options);
  return status.ok() ? kExitSuccess : ReportFailure("bench model", status);
}

}  // namespace swiftkv
