// SPDX-License-Identifier: Apache-2.0
// Formats the figures of `bench model`.
#include "tools/bench_model_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/cpu_features.h"
#include "tools/options_json.h"
#include "tools/printable_text.h"

namespace swiftkv {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLeastBusy = 0.95;  // of each thread's time

// Figures of a clock need no more digits than this.
double Rounded(double value) { return std::round(value * 1000) / 1000; }

Json RowJson(const ModelRow& row) {
  return {{"format", row.format},
          {"depth", row.depth},
          {"batch", row.batch},
          {"shared_tokens", row.shared_tokens},
          {"prompt_tps", row.prompt_tps ? Json(Rounded(*row.prompt_tps)) : Json()},
          {"prefill_tps", Rounded(row.prefill_tps)},
          {"prefill_attention_share", Rounded(row.prefill_attention_share)},
          {"decode_tps", Rounded(row.decode_tps)},
          {"decode_attention_share", Rounded(row.decode_attention_share)},
          {"busy", Rounded(row.busy)}};
}

}  // namespace

std::string ModelBenchJson(const ModelBenchResult& result, const BenchModelOptions& options) {
  Json object = {{"model", result.model},
                 {"architecture", result.architecture},
                 {"cpu", CpuSummary(HostCpu())},
                 {"threads", result.threads},
                 {"prefill_tokens", options.prefill_tokens},
                 {"decode_tokens", options.decode_tokens},
                 {"rounds", options.rounds},
                 {"rows", Json::array()}};
  for (const ModelRow& row : result.rows) object["rows"].push_back(RowJson(row));
  return JsonLine(object);
}

std::string ModelBenchText(const ModelBenchResult& result, const BenchModelOptions& options) {
  std::string text = fmt::format(
      "{} ({}), {} threads, {}: prefill of {} tokens and decode of {} behind a context, tokens/s; "
      "share of attention in the time\n\n{:<10}{:>8}{:>6}{:>8}{:>10}{:>10}{:>7}{:>10}{:>7}\n",
      PrintableLine(result.model), PrintableLine(result.architecture), result.threads,
      CpuSummary(HostCpu()), options.prefill_tokens, options.decode_tokens, "format", "depth",
      "batch", "shared", "prompt", "prefill", "share", "decode", "share");
  for (const ModelRow& row : result.rows) {
    text += fmt::format(
        "{:<10}{:>8}{:>6}{:>8}{:>10}{:>10.1f}{:>7.2f}{:>10.1f}{:>7.2f}{}\n", row.format, row.depth,
        row.batch, row.shared_tokens, row.prompt_tps ? fmt::format("{:.1f}", *row.prompt_tps) : "-",
        row.prefill_tps, row.prefill_attention_share, row.decode_tps, row.decode_attention_share,
        row.busy < kLeastBusy ? "   others used the processor" : "");
  }
  return text;
}

}  // namespace swiftkv
