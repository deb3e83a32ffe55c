// SPDX-License-Identifier: Apache-2.0
// Formats the figures of `bench waste`.
#include "tools/bench_waste_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "tools/options_json.h"

namespace swiftkv {
namespace {

using Json = nlohmann::ordered_json;

double Rounded(double value) { return std::round(value * 1e6) / 1e6; }

Json RowJson(const WasteRow& row, const BenchWasteOptions& options) {
  return {{"allocator", row.allocator},
          {"format", row.format},
          {"geometry", row.geometry},
          {"batch", options.batch},
          {"lengths", options.lengths},
          {"filled", Rounded(row.slots.filled)},
          {"reserved", Rounded(row.slots.reserved)},
          {"internal", Rounded(row.slots.internal)},
          {"external", Rounded(row.slots.external)},
          {"waste_fraction", Rounded(row.slots.waste())},
          {"waste_bytes_fraction", Rounded(row.waste_bytes_fraction)},
          {"filled_bytes", row.filled_bytes},
          {"resident_bytes", row.resident_bytes},
          {"peak_resident_bytes", row.peak_resident_bytes},
          {"pool_bytes", row.pool_bytes}};
}

std::string BlockSizesText(const WasteBenchResult& result) {
  std::string text = fmt::format("\nOn paper, over the same steps\n\n{:>12}{:>10}{:>10}{:>10}\n",
                                 "block", "reserved", "internal", "waste");
  for (const BlockSizeRow& row : result.block_sizes) {
    text +=
        fmt::format("{:>12}{:>9.2f}%{:>9.2f}%{:>9.2f}%\n", row.block_tokens,
                    100 * row.slots.reserved, 100 * row.slots.internal, 100 * row.slots.waste());
  }
  return text;
}

}  // namespace

std::string WasteBenchJson(const WasteBenchResult& result, const BenchWasteOptions& options) {
  Json object = {{"requests", options.requests},
                 {"seed", options.seed},
                 {"steps", result.steps},
                 {"mean_prompt_tokens", Rounded(result.mean_prompt)},
                 {"mean_output_tokens", Rounded(result.mean_output)},
                 {"mean_batch_tokens", Rounded(result.mean_tokens)},
                 {"rows", Json::array()},
                 {"skipped", Json::array()},
                 {"block_sizes", Json::array()}};
  for (const WasteRow& row : result.rows) object["rows"].push_back(RowJson(row, options));
  for (const SkippedRow& row : result.skipped) {
    object["skipped"].push_back({{"allocator", row.allocator},
                                 {"format", row.format},
                                 {"geometry", row.geometry},
                                 {"reason", row.reason}});
  }
  for (const BlockSizeRow& row : result.block_sizes) {
    object["block_sizes"].push_back({{"block_tokens", row.block_tokens},
                                     {"filled", Rounded(row.slots.filled)},
                                     {"reserved", Rounded(row.slots.reserved)},
                                     {"internal", Rounded(row.slots.internal)},
                                     {"waste_fraction", Rounded(row.slots.waste())}});
  }
  return JsonLine(object);
}

std::string WasteBenchText(const WasteBenchResult& result, const BenchWasteOptions& options) {
  std::string text = fmt::format(
      "{} requests, {}: {:.0f} tokens in and {:.0f} out on average; {} at a time, which hold "
      "{:.0f} "
      "tokens; {} steps.\nShares of allocated slots, and the share of resident bytes (smaps) that "
      "holds no token.\n\n{:<15}{:<18}{:<10}{:>8}{:>10}{:>10}{:>10}{:>8}{:>8}{:>12}\n",
      options.requests, options.lengths, result.mean_prompt, result.mean_output, options.batch,
      result.mean_tokens, result.steps, "geometry", "allocator", "format", "filled", "reserved",
      "internal", "external", "waste", "bytes", "resident");
  for (const WasteRow& row : result.rows) {
    text += fmt::format(
        "{:<15}{:<18}{:<10}{:>7.2f}%{:>9.2f}%{:>9.2f}%{:>9.2f}%{:>7.2f}%{:>7.2f}%{:>12}\n",
        row.geometry, row.allocator, row.format, 100 * row.slots.filled, 100 * row.slots.reserved,
        100 * row.slots.internal, 100 * row.slots.external, 100 * row.slots.waste(),
        100 * row.waste_bytes_fraction, FormatByteSize(row.resident_bytes));
  }
  for (const SkippedRow& row : result.skipped) {
    text += fmt::format("{:<15}{:<18}{:<10}  left out: {}\n", row.geometry, row.allocator,
                        row.format, row.reason);
  }
  return text + BlockSizesText(result);
}

}  // namespace swiftkv
