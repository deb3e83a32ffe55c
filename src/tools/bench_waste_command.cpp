// SPDX-License-Identifier: Apache-2.0
// Measures and prints.
#include "tools/bench_waste_command.h"

#include <fstream>
#include <string>

#include "base/status_macros.h"
#include "tools/bench_waste.h"
#include "tools/bench_waste_chart.h"
#include "tools/bench_waste_report.h"
#include "tools/exit_status.h"
#include "tools/failure_report.h"
#include "tools/interrupt.h"
#include "tools/progress_line.h"
#include "tools/standard_output.h"

namespace swiftkv {
namespace {

Result<WasteBenchResult> Measure(const BenchWasteOptions& options) {
  ProgressLine progress("measuring", !options.json);
  return RunWasteBench(options, [&](double done, const std::string& row) {
    progress.Update(done, row);
    return !Interrupted();
  });
}

Status WriteChart(const std::string& path, const std::string& svg) {
  std::ofstream file(path, std::ios::binary);
  file << svg;
  file.close();
  return file ? Status::Ok() : Status::Internal("the chart cannot be written to: " + path);
}

Result<int> Run(const BenchWasteOptions& options) {
  SKV_ASSIGN_OR_RETURN(const WasteBenchResult result, Measure(options));
  if (!options.svg.empty()) {
    SKV_RETURN_IF_ERROR(WriteChart(options.svg, WasteBenchSvg(result, options)));
  }
  StandardOutput output;
  output.Write(options.json ? WasteBenchJson(result, options) + "\n"
                            : WasteBenchText(result, options));
  SKV_RETURN_IF_ERROR(output.status());
  return Interrupted() ? kExitInterrupted : kExitSuccess;
}

}  // namespace

int BenchWasteCommand(std::span<const char* const> arguments) {
  const Result<BenchWasteOptions> options = ParseBenchWasteOptions(arguments);
  if (!options.ok()) return ReportUsage("bench waste", options.status());
  const Result<int> exit_status = Run(*options);
  return exit_status.ok() ? *exit_status : ReportFailure("bench waste", exit_status.status());
}

}  // namespace swiftkv
