// SPDX-License-Identifier: Apache-2.0
// Formats the figures of `bench engine`.
#include "tools/bench_engine_report.h"

#include <fmt/format.h>

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

Json BatchJson(const EngineBatchRow& row, const BenchEngineOptions& options) {
  return {{"phase", "batch"},
          {"format", row.format},
          {"requests", options.requests},
          {"shared_tokens", options.shared_tokens},
          {"own_tokens", options.own_tokens},
          {"new_tokens", options.new_tokens},
          {"seconds", Rounded(row.seconds)},
          {"tokens_per_s", Rounded(row.tokens_per_s)},
          {"cached_tokens", row.cached_tokens},
          {"ttft_mean_ms", Rounded(row.ttft_mean_ms)},
          {"ttft_max_ms", Rounded(row.ttft_max_ms)},
          {"gap_max_ms", Rounded(row.gap_max_ms)},
          {"overhead", Rounded(row.overhead)},
          {"scheduling_share", Rounded(row.scheduling_share)},
          {"memory_share", Rounded(row.memory_share)},
          {"sampling_share", Rounded(row.sampling_share)},
          {"kv_bytes", row.kv_bytes},
          {"unshared_bytes", row.unshared_bytes}};
}

Json LateJson(const EngineLateRow& row, const BenchEngineOptions& options) {
  return {{"phase", "late_prompt"},
          {"format", row.format},
          {"prompt_tokens", options.late_prompt},
          {"gap_max_ms", Rounded(row.gap_max_ms)},
          {"ttft_ms", Rounded(row.ttft_ms)},
          {"ttft_alone_ms", Rounded(row.ttft_alone_ms)}};
}

std::string Bytes(double bytes) { return FormatByteSize(static_cast<std::uint64_t>(bytes)); }

}  // namespace

std::string EngineBenchJson(const EngineBenchResult& result, const BenchEngineOptions& options) {
  Json object = {{"model", result.model},        {"architecture", result.architecture},
                 {"cpu", CpuSummary(HostCpu())}, {"threads", result.threads},
                 {"chunk", result.chunk},        {"rounds", options.rounds},
                 {"rows", Json::array()}};
  for (const EngineBatchRow& row : result.batches) {
    object["rows"].push_back(BatchJson(row, options));
  }
  for (const EngineLateRow& row : result.late_prompts) {
    object["rows"].push_back(LateJson(row, options));
  }
  return JsonLine(object);
}

std::string EngineBenchText(const EngineBenchResult& result, const BenchEngineOptions& options) {
  std::string text = fmt::format(
      "{} ({}), {} threads, {}, steps of at most {} tokens\n\n{} requests of {} shared and {} own "
      "tokens, {} new ones "
      "each\n{:<10}{:>9}{:>10}{:>9}{:>11}{:>10}{:>9}{:>10}{:>9}{:>9}{:>9}{:>11}{:>11}\n",
      PrintableLine(result.model), PrintableLine(result.architecture), result.threads,
      CpuSummary(HostCpu()), result.chunk, options.requests, options.shared_tokens,
      options.own_tokens, options.new_tokens, "format", "seconds", "tokens/s", "cached",
      "first, ms", "last, ms", "gap, ms", "overhead", "plans", "memory", "draws", "KV", "unshared");
  for (const EngineBatchRow& row : result.batches) {
    text += fmt::format(
        "{:<10}{:>9.2f}{:>10.1f}{:>9.0f}{:>11.0f}{:>10.0f}{:>9.0f}{:>10.3f}{:>9.3f}{:>9.3f}{:>9.3f}"
        "{:>11}"
        "{:>11}\n",
        row.format, row.seconds, row.tokens_per_s, row.cached_tokens, row.ttft_mean_ms,
        row.ttft_max_ms, row.gap_max_ms, row.overhead, row.scheduling_share, row.memory_share,
        row.sampling_share, Bytes(row.kv_bytes), Bytes(row.unshared_bytes));
  }
  if (result.late_prompts.empty()) return text;
  text += fmt::format("\na prompt of {} tokens beside a stream\n{:<10}{:>9}{:>11}{:>11}\n",
                      options.late_prompt, "format", "gap, ms", "first, ms", "alone, ms");
  for (const EngineLateRow& row : result.late_prompts) {
    text += fmt::format("{:<10}{:>9.0f}{:>11.0f}{:>11.0f}\n", row.format, row.gap_max_ms,
                        row.ttft_ms, row.ttft_alone_ms);
  }
  return text;
}

}  // namespace swiftkv
