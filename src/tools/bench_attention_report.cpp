// SPDX-License-Identifier: Apache-2.0
// Formats the figures of `bench attention`.
#include "tools/bench_attention_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/options_json.h"

namespace swiftkv {
namespace {

using Json = nlohmann::ordered_json;

// Figures of a clock need no more digits than this.
double Rounded(double value) { return std::round(value * 1000) / 1000; }

Json Optional(const std::optional<double>& value) { return value ? Json(Rounded(*value)) : Json(); }

Json RowJson(const AttentionRow& row) {
  const BenchPagesSpec& pages = row.what.pages;
  const AttentionShape& shape = pages.shape;
  const BenchWork work = WorkOf(pages);
  return {{"phase", BenchPhaseName(row.what.phase)},
          {"isa", IsaName(row.what.isa)},
          {"format", row.what.format},
          {"head_dim", shape.head_dim},
          {"kv_heads", shape.num_kv_heads},
          {"gqa", shape.num_heads / shape.num_kv_heads},
          {"context", pages.context},
          {"batch", pages.batch},
          {"shared_tokens", pages.shared_tokens},
          {"queries", pages.queries},
          {"removed", pages.removed},
          {"calls", work.calls},
          {"us", Rounded(row.us)},
          {"bytes_read", work.distinct_bytes},
          {"gb_s", Rounded(GbPerSecond(row))},
          {"stream_gb_s", Optional(row.stream_gb_s)},
          {"fraction", Optional(row.fraction)},
          {"raw_fraction", Optional(row.raw_fraction)},
          {"gflop_s", Rounded(GflopPerSecond(row))},
          {"peak_fraction", Optional(row.peak_fraction)},
          {"us_private", Optional(row.us_private)},
          {"ratio", Optional(row.ratio)},
          {"us_dense", Optional(row.us_dense)},
          {"speedup", Optional(row.speedup)},
          {"bound_us", Optional(row.bound_us)},
          {"bound_ratio", Optional(row.bound_ratio)},
          {"rounds", row.rounds},
          {"rejected", row.rejected},
          {"disturbed", row.disturbed}};
}

std::string Figure(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

std::string MachineText(const MachineFigures& machine) {
  std::string text =
      fmt::format("{} threads, {}: reads {:.1f} GB/s", machine.threads, machine.cpu, machine.gb_s);
  if (machine.huge_gb_s) text += fmt::format(" ({:.1f} from 2 MiB pages)", *machine.huge_gb_s);
  text += fmt::format(", computes {:.0f} GFLOP/s in f32", machine.gflop_s);
  if (machine.bf16_gflop_s) text += fmt::format(", {:.0f} in bf16", *machine.bf16_gflop_s);
  if (machine.amx_bf16_gflop_s) text += fmt::format(", {:.0f} on AMX", *machine.amx_bf16_gflop_s);
  return text + "\n";
}

std::string Heading(BenchPhase phase) {
  const std::string shape = fmt::format("{:<12}{:<10}{:>4}{:>4}{:>4}{:>8}{:>6}", "isa", "format",
                                        "dim", "kv", "gqa", "context", "batch");
  switch (phase) {
    case BenchPhase::kDecode:
      return fmt::format(
          "\nDecode: fractions of a plain read of as many bytes, and of the same "
          "pages\n{}{:>10}{:>8}{:>10}{:>10}{:>9}{:>9}\n",
          shape, "ms", "GB/s", "of read", "of pages", "removed", "speedup");
    case BenchPhase::kCascade:
      return fmt::format(
          "\nCascade: sequences on shared tokens beside as many with their own\n"
          "{}{:>10}{:>12}{:>8}{:>10}\n",
          shape, "ms", "private ms", "ratio", "of bound");
    case BenchPhase::kPrefill:
      return fmt::format(
          "\nPrefill: up to 512 queries at the end of a context\n{}{:>10}{:>10}{:>9}\n", shape,
          "ms", "GFLOP/s", "of peak");
  }
  return "";
}

std::string RowText(const AttentionRow& row) {
  const BenchPagesSpec& pages = row.what.pages;
  const AttentionShape& shape = pages.shape;
  std::string line =
      fmt::format("{:<12}{:<10}{:>4}{:>4}{:>4}{:>8}{:>6}{:>10.2f}", IsaName(row.what.isa),
                  row.what.format, shape.head_dim, shape.num_kv_heads,
                  shape.num_heads / shape.num_kv_heads, pages.context, pages.batch, row.us * 1e-3);
  switch (row.what.phase) {
    case BenchPhase::kDecode:
      line += fmt::format("{:>8.1f}{:>10}{:>10}{:>9.3g}{:>9}", GbPerSecond(row),
                          Figure(row.fraction, 2), Figure(row.raw_fraction, 2), pages.removed,
                          Figure(row.speedup, 2));
      break;
    case BenchPhase::kCascade:
      line += fmt::format("{:>12.2f}{:>8}{:>10}", row.us_private.value_or(0) * 1e-3,
                          Figure(row.ratio, 2), Figure(row.bound_ratio, 2));
      break;
    case BenchPhase::kPrefill:
      line += fmt::format("{:>10.0f}{:>9}", GflopPerSecond(row), Figure(row.peak_fraction, 2));
      break;
  }
  if (row.disturbed > 0) line += fmt::format("   {} passes disturbed", row.disturbed);
  return line + "\n";
}

}  // namespace

std::string AttentionBenchJson(const AttentionBenchResult& result,
                               const BenchAttentionOptions& options) {
  const MachineFigures& machine = result.machine;
  Json object = {{"machine_gb_s", Rounded(machine.gb_s)},
                 {"machine_huge_gb_s", Optional(machine.huge_gb_s)},
                 {"machine_gflop_s", Rounded(machine.gflop_s)},
                 {"machine_bf16_gflop_s", Optional(machine.bf16_gflop_s)},
                 {"machine_amx_bf16_gflop_s", Optional(machine.amx_bf16_gflop_s)},
                 {"cpu", machine.cpu},
                 {"threads", machine.threads},
                 {"huge_pages", options.huge_pages},
                 {"shuffled", options.shuffled},
                 {"rows", Json::array()}};
  for (const AttentionRow& row : result.rows) object["rows"].push_back(RowJson(row));
  return JsonLine(object);
}

std::string AttentionBenchText(const AttentionBenchResult& result) {
  std::string text = MachineText(result.machine);
  for (const BenchPhase phase : {BenchPhase::kDecode, BenchPhase::kCascade, BenchPhase::kPrefill}) {
    std::string lines;
    for (const AttentionRow& row : result.rows) {
      if (row.what.phase == phase) lines += RowText(row);
    }
    if (!lines.empty()) text += Heading(phase) + lines;
  }
  return text;
}

}  // namespace swiftkv
