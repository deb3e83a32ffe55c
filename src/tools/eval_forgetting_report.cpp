// SPDX-License-Identifier: Apache-2.0
// Formats figures of forgetting.
#include "tools/eval_forgetting_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/byte_size.h"
#include "policy/budget_split.h"
#include "tools/options_json.h"

namespace swiftkv {
namespace {

using Json = nlohmann::ordered_json;

const char* SplitName(BudgetSplit split) {
  for (const BudgetSplitInfo& info : AllBudgetSplits()) {
    if (info.split == split) return info.name;
  }
  return "unknown";
}

const std::optional<Interval>& Of(const RecallIntervals& intervals, RecallMetric metric) {
  return intervals[static_cast<std::size_t>(metric)];
}

// JSON has no infinity: such a figure is null.
Json ValueJson(const std::optional<Interval>& interval) {
  return interval ? Json(interval->value) : Json();
}

Json LimitsJson(const RecallIntervals& intervals) {
  Json object = Json::object();
  for (const RecallMetricInfo& info : AllRecallMetrics()) {
    const std::optional<Interval>& interval = Of(intervals, info.metric);
    if (interval) object[info.name] = {interval->low, interval->high};
  }
  return object;
}

Json DifferencesJson(const std::optional<RecallIntervals>& differences) {
  if (!differences) return {};
  Json object = Json::object();
  for (const RecallMetricInfo& info : AllRecallMetrics()) {
    const std::optional<Interval>& interval = Of(*differences, info.metric);
    if (interval) object[info.name] = {interval->value, interval->low, interval->high};
  }
  return object;
}

Json NeedlesJson(const std::vector<NeedleFigures>& needles) {
  Json array = Json::array();
  for (const NeedleFigures& needle : needles) {
    array.push_back({{"task", TaskKindName(needle.kind)},
                     {"length", needle.length},
                     {"depth", needle.kind == TaskKind::kNeedle ? Json(needle.depth) : Json()},
                     {"question_inside", needle.question_inside},
                     {"answers", needle.answers},
                     {"nll", needle.nll},
                     {"hit", needle.hit}});
  }
  return array;
}

// Nothing where there is no text.
std::optional<double> Perplexity(const RecallIntervals& intervals) {
  const std::optional<Interval>& nll = Of(intervals, RecallMetric::kTextNll);
  return nll ? std::optional(std::exp(nll->value)) : std::nullopt;
}

Json RowJson(const EvalCell& cell, const ForgettingRow& row) {
  const RecallIntervals& intervals = row.figures.intervals;
  Json object = {{"format", PageFormatName(cell.cell.format)},
                 {"policy", cell.policy},
                 {"ratio", cell.ratio},
                 {"budget_split", cell.policy == kNoPolicy ? Json() : Json(SplitName(cell.split))},
                 {"kept_as", cell.kept_as},
                 {"bytes", std::llround(row.figures.bytes)},
                 {"bits_per_value", row.figures.bits_per_value},
                 {"kept_fraction", row.figures.kept_fraction},
                 {"positions", row.figures.positions}};
  for (const RecallMetricInfo& info : AllRecallMetrics()) {
    object[info.name] = ValueJson(Of(intervals, info.metric));
  }
  const std::optional<double> perplexity = Perplexity(intervals);
  object["ppl"] = perplexity ? Json(*perplexity) : Json();
  object["intervals"] = LimitsJson(intervals);
  object["less_random"] = DifferencesJson(row.less_random);
  object["less_sink_recent"] = DifferencesJson(row.less_sink_recent);
  object["less_uniform"] = DifferencesJson(row.less_uniform);
  object["less_same"] = DifferencesJson(row.less_same);
  object["needles"] = NeedlesJson(row.needles);
  return object;
}

// "value" and half the width of its interval.
std::string WithMargin(const std::optional<Interval>& interval, int digits) {
  if (!interval) return "-";
  return fmt::format("{:.{}f}±{:.{}f}", interval->value, digits,
                     (interval->high - interval->low) / 2, digits);
}

std::string Percent(const std::optional<Interval>& interval) {
  return interval ? fmt::format("{:.1f}", interval->value * 100) : "-";
}

// Better or worse than random, outside of the paired interval.
std::string Mark(const ForgettingRow& row, RecallMetric metric) {
  if (!row.less_random) return " ";
  const std::optional<Interval>& difference = Of(*row.less_random, metric);
  if (!difference) return " ";
  if (difference->high < 0) return "+";
  return difference->low > 0 ? "-" : " ";
}

std::string NameOf(const EvalCell& cell) {
  std::string name = cell.policy;
  if (cell.policy == kNoPolicy) return name;
  if (cell.split != BudgetSplit::kUniform) name += fmt::format(" {}", SplitName(cell.split));
  if (cell.kept_as != kKeptAsStored) name += fmt::format(" {}", cell.kept_as);
  return name;
}

// Columns of the longest name.
std::size_t NameWidth(const std::vector<EvalCell>& cells) {
  std::size_t width = std::string_view("policy").size();
  for (const EvalCell& cell : cells) width = std::max(width, NameOf(cell).size());
  return width;
}

std::string TableRow(const EvalCell& cell, const ForgettingRow& row, std::size_t name_width) {
  const RecallIntervals& intervals = row.figures.intervals;
  const auto marked = [&](RecallMetric metric) {
    return WithMargin(Of(intervals, metric), 3) + Mark(row, metric);
  };
  const std::optional<double> perplexity = Perplexity(intervals);
  return fmt::format(
      "{:<10} {:<{}} {:>4} {:>10} {:>6.2f} {:>14} {:>8} {:>6} {:>8} {:>14} {:>14} {:>6} {:>14} "
      "{:>6}\n",
      PageFormatName(cell.cell.format), NameOf(cell), name_width,
      cell.ratio == 0 ? "0" : fmt::format("{:.2g}", cell.ratio),
      FormatByteSize(static_cast<std::uint64_t>(std::llround(row.figures.bytes))),
      row.figures.bits_per_value, marked(RecallMetric::kMeanKld),
      Of(intervals, RecallMetric::kP99Kld)
          ? fmt::format("{:.3f}", Of(intervals, RecallMetric::kP99Kld)->value)
          : "-",
      Percent(Of(intervals, RecallMetric::kSameTop1)),
      perplexity ? fmt::format("{:.3f}", *perplexity) : "-", marked(RecallMetric::kCopyNll),
      marked(RecallMetric::kNeedleNll), Percent(Of(intervals, RecallMetric::kNeedleHit)),
      marked(RecallMetric::kMultiNeedleNll), Percent(Of(intervals, RecallMetric::kMultiNeedleHit)));
}

}  // namespace

std::string ForgettingJson(const ForgettingSource& source, const std::vector<EvalCell>& cells,
                           const ForgettingReport& report) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < cells.size(); ++i) rows.push_back(RowJson(cells[i], report.rows[i]));
  const Json object = {
      {"model", source.model},
      {"fingerprint", report.fingerprint},
      {"text", source.text},
      {"text_sha256", source.text_sha256},
      {"weights", MeasuredWeightsName(report.weights)},
      {"context", report.context},
      {"chunk", report.chunk},
      {"documents", report.documents},
      {"cells", report.cells},
      {"kept_cells", report.kept_cells},
      {"query_statistics", report.query_figures.empty() ? Json("own") : Json(report.query_figures)},
      {"rows", rows}};
  return JsonLine(object);
}

std::string ForgettingTable(const ForgettingSource& source, const std::vector<EvalCell>& cells,
                            const ForgettingReport& report) {
  std::string table = fmt::format(
      "model   {}\ntext    {}: {} documents of up to {} tokens; {} of {} cells were measured "
      "before\nweights {}{}\n"
      "± half a 95 % interval; + better and - worse than random at the same bytes, outside of the "
      "paired interval\n\n",
      source.model, source.text, report.documents, report.context, report.kept_cells, report.cells,
      MeasuredWeightsName(report.weights),
      report.weights_reason.empty() ? "" : ": " + report.weights_reason);
  const std::size_t name_width = NameWidth(cells);
  table += fmt::format(
      "{:<10} {:<{}} {:>4} {:>10} {:>6} {:>14} {:>8} {:>6} {:>8} {:>14} {:>14} {:>6} {:>14} "
      "{:>6}\n",
      "format", "policy", name_width, "cut", "bytes", "bits", "mean KLD", "99 %", "top-1", "ppl",
      "copy NLL", "needle NLL", "hit", "multi NLL", "hit");
  for (std::size_t i = 0; i < cells.size(); ++i) {
    table += TableRow(cells[i], report.rows[i], name_width);
  }
  return table;
}

}  // namespace swiftkv
