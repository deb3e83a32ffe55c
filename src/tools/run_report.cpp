// SPDX-License-Identifier: Apache-2.0
// Formats the figures of a reply.
#include "tools/run_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "tools/kv_report_json.h"
#include "tools/options_json.h"

namespace swiftkv {
namespace {

using Json = nlohmann::ordered_json;

// Figures of a clock need no more digits than this.
double Rounded(double value) { return std::round(value * 1000) / 1000; }

std::string LimitText(LengthLimit limit) {
  switch (limit) {
    case LengthLimit::kContext:
      return "The reply was cut because the context is full.\n";
    case LengthLimit::kMemory:
      return "The reply was cut because the KV memory is full; see --kv-memory.\n";
    case LengthLimit::kNone:
    case LengthLimit::kMaxTokens:
      return "";
  }
  return "";
}

// What is known of the format's loss, and that nobody named it.
std::string ChoiceText(const KvReport& kv) {
  std::string text = kv.is_automatic ? "auto" : "";
  if (kv.mean_kld) text += fmt::format("{}KLD {:.1g}", text.empty() ? "" : ", ", *kv.mean_kld);
  return text.empty() ? "" : " (" + text + ")";
}

std::string Tokens(std::size_t count) {
  return fmt::format("{} token{}", count, count == 1 ? "" : "s");
}

}  // namespace

std::string RunJson(const GenerationResult& result, const KvReport& kv, const std::string& model) {
  const Json object = {{"text", result.text},
                       {"tokens", result.tokens},
                       {"finish_reason", FinishReasonName(result.reason)},
                       {"prompt_tokens", result.prompt_tokens},
                       {"cached_tokens", result.cached_tokens},
                       {"prefix_end", PrefixEndName(result.prefix_end)},
                       {"prefix_differs_at", PrefixDiffersAtJson(result.prefix_differs_at)},
                       {"completion_tokens", result.tokens.size()},
                       {"ttft_ms", Rounded(result.times.first_token * 1000)},
                       {"prefill_tps", Rounded(result.PrefillRate())},
                       {"decode_tps", Rounded(result.DecodeRate())},
                       {"compactions", result.compactions},
                       {"compaction_ms", Rounded(result.times.compaction * 1000)},
                       {"seed", result.seed},
                       {"model", model},
                       {"kv", KvReportJson(kv)},
                       {"memory", MemoryReportJson(kv)}};
  return JsonLine(object);
}

std::string RunFooter(const GenerationResult& result, const KvReport& kv) {
  std::string footer = fmt::format("prompt  {}", Tokens(result.prompt_tokens));
  if (result.cached_tokens > 0) footer += fmt::format(", {} from the cache", result.cached_tokens);
  if (result.PrefillRate() > 0) footer += fmt::format(", {:.0f} tokens/s", result.PrefillRate());
  footer += fmt::format("; reply {}", Tokens(result.tokens.size()));
  if (result.DecodeRate() > 0) footer += fmt::format(", {:.1f} tokens/s", result.DecodeRate());
  if (result.times.first_token > 0) {
    footer += fmt::format("; first after {:.0f} ms", result.times.first_token * 1000);
  }
  footer += fmt::format(
      "\ncache   {}{}, {:.2f} bits a value: {} for {}, {} allocated ({:.1f} % waste); contiguous "
      "for {} tokens: {}\n",
      kv.format, ChoiceText(kv), kv.bits_per_value, FormatByteSize(kv.bytes_used),
      Tokens(static_cast<std::size_t>(kv.logical_tokens)), FormatByteSize(kv.bytes_allocated),
      kv.waste_fraction * 100, kv.contiguous_tokens, FormatByteSize(kv.contiguous_bytes));
  if (result.compactions > 0) {
    footer += fmt::format("kept    {} of {} in a head by {}, {:.0f} ms\n", kv.kept_tokens,
                          Tokens(static_cast<std::size_t>(kv.logical_tokens)), kv.policy,
                          result.times.compaction * 1000);
  }
  return footer + LimitText(result.limit);
}

std::string TurnFooter(const GenerationResult& result, const KvReport& kv) {
  return fmt::format("[prompt {}, {} from the cache; reply {}, {:.1f} tokens/s; KV {} of {}]\n{}",
                     Tokens(result.prompt_tokens), result.cached_tokens,
                     Tokens(result.tokens.size()), result.DecodeRate(),
                     FormatByteSize(kv.bytes_allocated), FormatByteSize(kv.contiguous_bytes),
                     LimitText(result.limit));
}

}  // namespace swiftkv
