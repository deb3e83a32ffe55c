// SPDX-License-Identifier: Apache-2.0
// Formats the figures of `bench capacity`.
#include "tools/bench_capacity_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "base/cpu_features.h"
#include "tools/options_json.h"
#include "tools/printable_text.h"

namespace swiftkv {
namespace {

using Json = nlohmann::ordered_json;

// Figures of a clock need no more digits than this.
double Rounded(double value) { return std::round(value * 1000) / 1000; }

Json RowJson(const CapacityRow& row, const BenchCapacityOptions& options) {
  const CapacityFigures& figures = row.figures;
  return {{"allocator", row.allocator},
          {"format", row.format},
          {"reservations", row.reservations},
          {"memory_bytes", row.memory_bytes},
          {"shared_tokens", options.shared_tokens},
          {"max_concurrent", figures.max_concurrent},
          {"mean_concurrent", Rounded(figures.mean_concurrent)},
          {"tokens_per_s", Rounded(figures.tokens_per_s)},
          {"whole_mean_concurrent", Rounded(figures.whole_mean_concurrent)},
          {"whole_tokens_per_s", Rounded(figures.whole_tokens_per_s)},
          {"latency_mean_ms", Rounded(figures.latency_mean_ms)},
          {"latency_p99_ms", Rounded(figures.latency_p99_ms)},
          {"seconds", Rounded(figures.seconds)},
          {"saturated_seconds", Rounded(figures.saturated_seconds)},
          {"forward_share", Rounded(figures.forward_share)},
          {"preemptions", figures.preemptions},
          {"cached_fraction",
           Rounded(static_cast<double>(figures.cached_tokens) /
                   static_cast<double>(std::max<std::uint64_t>(1, figures.prompt_tokens)))}};
}

// The row of contiguous_max in the same memory, null where it was not measured.
const CapacityRow* Baseline(const CapacityBenchResult& result, const CapacityRow& row) {
  const auto found =
      std::find_if(result.rows.begin(), result.rows.end(), [&](const CapacityRow& other) {
        return other.allocator == "contiguous_max" && other.reservations == row.reservations;
      });
  return found == result.rows.end() ? nullptr : &*found;
}

// "8.3 (4.2x)"
std::string WithFactor(double value, const CapacityRow* baseline, double CapacityFigures::*field) {
  std::string text = fmt::format("{:.1f}", value);
  if (baseline != nullptr)
    text += fmt::format(" {:>6}", fmt::format("({:.1f}x)", value / (baseline->figures.*field)));
  return text;
}

}  // namespace

std::string CapacityBenchJson(const CapacityBenchResult& result,
                              const BenchCapacityOptions& options) {
  Json object = {{"model", result.model},
                 {"architecture", result.architecture},
                 {"cpu", CpuSummary(HostCpu())},
                 {"threads", result.threads},
                 {"requests", options.requests},
                 {"lengths", options.lengths},
                 {"seed", options.seed},
                 {"batch", options.batch},
                 {"max_length", options.max_length},
                 {"mean_prompt_tokens", Rounded(result.mean_prompt)},
                 {"mean_output_tokens", Rounded(result.mean_output)},
                 {"rows", Json::array()}};
  for (const CapacityRow& row : result.rows) object["rows"].push_back(RowJson(row, options));
  return JsonLine(object);
}

std::string CapacityBenchText(const CapacityBenchResult& result,
                              const BenchCapacityOptions& options) {
  std::string text = fmt::format(
      "{} ({}), {} threads, {}.\n{} requests, {}: {:.0f} tokens in ({} of them shared) and {:.0f} "
      "out on average; all wait from the start.\nKV memory: so many reservations of {} tokens in "
      "f16. Requests in the cache and generated tokens/s while some wait, beside\ncontiguous_max; "
      "latency from the start to a request's end.\n\n"
      "{:>6}{:>11}  {:<17}{:<6}{:>7}{:>15}{:>17}{:>12}{:>10}{:>11}\n",
      PrintableLine(result.model), PrintableLine(result.architecture), result.threads,
      CpuSummary(HostCpu()), options.requests, options.lengths, result.mean_prompt,
      options.shared_tokens, result.mean_output, options.max_length, "memory", "", "allocator",
      "format", "most", "requests", "tokens/s", "latency s", "99 % s", "preempted");
  for (const CapacityRow& row : result.rows) {
    const CapacityRow* const baseline = Baseline(result, row);
    const CapacityFigures& figures = row.figures;
    text += fmt::format(
        "{:>6}{:>11}  {:<17}{:<6}{:>7}{:>15}{:>17}{:>12.1f}{:>10.1f}{:>11}\n", row.reservations,
        FormatByteSize(row.memory_bytes), row.allocator, row.format, figures.max_concurrent,
        WithFactor(figures.mean_concurrent, baseline, &CapacityFigures::mean_concurrent),
        WithFactor(figures.tokens_per_s, baseline, &CapacityFigures::tokens_per_s),
        figures.latency_mean_ms / 1000, figures.latency_p99_ms / 1000, figures.preemptions);
  }
  return text;
}

}  // namespace swiftkv
