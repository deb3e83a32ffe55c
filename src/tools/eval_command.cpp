// SPDX-License-Identifier: Apache-2.0
// Measures, reports, and keeps the figures that `--kv` looks at.
#include "tools/eval_command.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "base/status_macros.h"
#include "model/fingerprint.h"
#include "tools/calibration_store.h"
#include "tools/calibration_text.h"
#include "tools/eval_forgetting.h"
#include "tools/eval_forgetting_report.h"
#include "tools/eval_options.h"
#include "tools/eval_report.h"
#include "tools/exit_status.h"
#include "tools/failure_report.h"
#include "tools/interrupt.h"
#include "tools/model_path.h"
#include "tools/options_json.h"
#include "tools/process_log.h"
#include "tools/progress_line.h"
#include "tools/prompt_source.h"
#include "tools/quality_measurement.h"
#include "tools/standard_output.h"

namespace swiftkv {
namespace {

void LogOptions(EvalOptions options) {
  JsonVisitor visitor;
  VisitOptions(visitor, options);
  spdlog::info("options {}", JsonLine(visitor.object()));
}

std::optional<MeasuredWeights> WantedWeights(const EvalOptions& options) {
  if (options.weights.empty()) return std::nullopt;
  return options.weights == "f16" ? MeasuredWeights::kF16 : MeasuredWeights::kAsIs;
}

// Figures of the default way of measuring are what `--kv` judges by; others would mislead it.
void Keep(const EvalOptions& options, const Measurement& measurement) {
  const bool is_default = !options.text_file && options.model.context == 0 &&
                          options.model.max_batch_rows == kEvalChunk;
  if (!is_default) return;
  const CalibrationStore store = ProcessCalibrationStore();
  const Status kept =
      store.Save(measurement.fingerprint, CalibrationOf(measurement, CalibrationTextSha256()));
  if (!kept.ok()) spdlog::warn("{}", kept.message());
}

// Draws what is done, and stops where the user interrupts.
StageCallback Drawn(ProgressLine* progress) {
  return [progress](const char* stage, double done) {
    progress->Update(done, stage);
    return !Interrupted();
  };
}

Result<int> Print(const std::string& text) {
  StandardOutput output;
  output.Write(text);
  SKV_RETURN_IF_ERROR(output.status());
  return kExitSuccess;
}

Result<int> RunForgetting(const EvalOptions& options, const MeasurementTask& measurement) {
  ForgettingTask task;
  task.measurement = measurement;
  task.chunk = options.model.max_batch_rows;
  SKV_ASSIGN_OR_RETURN(task.cells, CellsToMeasure(options));
  task.documents.context = options.model.context;
  task.documents.text_windows = options.windows;
  task.documents.needle_documents = options.needles;
  task.documents.seed = static_cast<std::uint64_t>(options.seed);
  task.folder = options.folder.value_or("");
  task.use_query_figures = options.query_statistics;
  ForgettingReport report;
  {
    ProgressLine progress("eval", !options.output.quiet && !options.output.json);
    SKV_ASSIGN_OR_RETURN(report, MeasureForgetting(task, Drawn(&progress), InterruptFlag()));
  }
  const ForgettingSource source = {.model = measurement.model.path,
                                   .text = options.text_file.value_or("calibration"),
                                   .text_sha256 = TextFingerprint(std::string(measurement.text))};
  return Print(options.output.json ? ForgettingJson(source, task.cells, report) + "\n"
                                   : ForgettingTable(source, task.cells, report));
}

Result<int> RunQueryStatistics(const EvalOptions& options, const MeasurementTask& task) {
  std::string fingerprint;
  {
    ProgressLine progress("eval", !options.output.quiet && !options.output.json);
    SKV_ASSIGN_OR_RETURN(fingerprint,
                         MeasureAndKeepQueryFigures(task, Drawn(&progress), InterruptFlag()));
  }
  const nlohmann::ordered_json object = {{"model", task.model.path},
                                         {"query_statistics", fingerprint},
                                         {"rows", nlohmann::ordered_json::array()}};
  return Print(options.output.json ? JsonLine(object) + "\n"
                                   : fmt::format("query statistics of {} are kept: {}\n",
                                                 task.model.path, fingerprint));
}

Result<int> Run(const EvalOptions& options) {
  StartLog(options.output.verbose);
  LogOptions(options);
  MeasurementTask task;
  task.model = options.model;
  SKV_ASSIGN_OR_RETURN(task.model.path, ResolveModelPath(options.model.path, ProcessEnvironment()));
  SKV_ASSIGN_OR_RETURN(task.formats, FormatsToMeasure(options.formats));
  if (NamesAll(options.formats)) {
    SKV_ASSIGN_OR_RETURN(task.formats, ServedFormats(task.model, task.formats));
  }
  task.weights = WantedWeights(options);
  task.memory = options.memory;
  task.temporary_folder = TemporaryFolder(ProcessEnvironment());
  std::string text(CalibrationText());
  EvalReport report;
  report.model = task.model.path;
  report.text = options.text_file.value_or("calibration");
  if (options.text_file) {
    SKV_ASSIGN_OR_RETURN(text, ReadTextFile(*options.text_file));
  } else {
    report.text_sha256 = CalibrationTextSha256();
  }
  task.text = text;
  if (!options.policies.empty()) return RunForgetting(options, task);
  if (options.query_statistics) return RunQueryStatistics(options, task);
  {
    ProgressLine progress("eval", !options.output.quiet && !options.output.json);
    SKV_ASSIGN_OR_RETURN(report.measurement,
                         MeasureQuality(task, Drawn(&progress), InterruptFlag()));
  }
  Keep(options, report.measurement);
  return Print(options.output.json ? EvalJson(report) + "\n" : EvalTable(report));
}

}  // namespace

int EvalCommand(std::span<const char* const> arguments) {
  const Result<EvalOptions> options = ParseEvalOptions(arguments);
  if (!options.ok()) return ReportUsage("eval", options.status());
  const Result<int> exit_status = Run(*options);
  return exit_status.ok() ? *exit_status : ReportFailure("eval", exit_status.status());
}

}  // namespace swiftkv
