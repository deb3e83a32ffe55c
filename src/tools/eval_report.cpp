// SPDX-License-Identifier: Apache-2.0
// Formats the figures of `eval`.
#include "tools/eval_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "tools/options_json.h"

namespace swiftkv {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity: such a figure is null.
Json RowJson(const FormatQuality& row) {
  return {{"format", row.format},
          {"policy", "none"},
          {"ratio", 0.0},
          {"bytes", row.bytes},
          {"bits_per_value", row.bits_per_value},
          {"positions", row.loss.positions},
          {"mean_kld", row.loss.mean_kld},
          {"p99_kld", row.loss.p99_kld},
          {"same_top1", row.loss.same_top1},
          {"ppl", row.loss.ppl},
          {"copy_nll", nullptr},
          {"needle_nll", nullptr},
          {"needle_hit", nullptr}};
}

}  // namespace

std::string EvalJson(const EvalReport& report) {
  const Measurement& measurement = report.measurement;
  Json rows = Json::array();
  for (const FormatQuality& row : measurement.report.rows) rows.push_back(RowJson(row));
  const Json object = {
      {"model", report.model},
      {"fingerprint", measurement.fingerprint},
      {"text", report.text},
      {"text_sha256", report.text_sha256.empty() ? Json() : Json(report.text_sha256)},
      {"weights", MeasuredWeightsName(measurement.weights)},
      {"context", measurement.report.context},
      {"chunk", measurement.report.chunk},
      {"windows", measurement.report.windows},
      {"passes", measurement.report.passes},
      {"kv_peak_bytes", measurement.report.kv_peak_bytes},
      {"noise_floor", NoiseFloorOf(measurement.report)},
      {"rows", rows}};
  return JsonLine(object);
}

std::string EvalTable(const EvalReport& report) {
  const QualityReport& measured = report.measurement.report;
  const std::int64_t positions = measured.rows.empty() ? 0 : measured.rows.front().loss.positions;
  std::string table = fmt::format(
      "model   {}\ntext    {}: {} window{} of {} tokens in steps of {}; {} positions count\n"
      "weights {}{}\n\n",
      report.model, report.text, measured.windows, measured.windows == 1 ? "" : "s",
      measured.context, measured.chunk, positions, MeasuredWeightsName(report.measurement.weights),
      report.measurement.weights_reason.empty() ? "" : ": " + report.measurement.weights_reason);
  table += fmt::format("{:<18}{:>6}{:>12}{:>11}{:>11}{:>10}{:>12}\n", "format", "bits", "bytes",
                       "mean KLD", "99 % KLD", "top-1", "perplexity");
  for (const FormatQuality& row : measured.rows) {
    table += fmt::format("{:<18}{:>6.2f}{:>12}{:>11.2e}{:>11.2e}{:>8.1f} %{:>12.3f}\n", row.format,
                         row.bits_per_value, FormatByteSize(row.bytes), row.loss.mean_kld,
                         row.loss.p99_kld, row.loss.same_top1 * 100, row.loss.ppl);
  }
  return table;
}

}  // namespace swiftkv
