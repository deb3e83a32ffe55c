// SPDX-License-Identifier: Apache-2.0
// Formats the figures of a reply.
#include "tools/run_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "tools/options_json.h"

namespace swiftkv {
namespace {

using Json = nlohmann::ordered_json;

// Figures of a clock need no more digits than this.
double Rounded(double value) { return std::round(value * 1000) / 1000; }

Json KvJson(const KvReport& kv) {
  return {{"format", kv.format},
          {"automatic", kv.is_automatic},
          {"mean_kld", kv.mean_kld ? Json(*kv.mean_kld) : Json()},
          {"policy", kv.policy},
          {"quality", kv.quality},
          {"bytes_per_token", kv.bytes_per_token},
          {"bits_per_value", Rounded(kv.bits_per_value)},
          {"logical_tokens", kv.logical_tokens},
          {"kept_tokens", kv.kept_tokens},
          {"bytes_used", kv.bytes_used},
          {"bytes_allocated", kv.bytes_allocated},
          {"peak_bytes", kv.peak_bytes},
          {"waste_fraction", kv.waste_fraction},
          {"exact_bytes", kv.exact_bytes},
          {"contiguous_bytes", kv.contiguous_bytes},
          {"contiguous_tokens", kv.contiguous_tokens}};
}

Json MemoryJson(const KvReport& kv) {
  const KvBalance& balance = kv.balance;
  return {{"live_private_bytes", balance.live_private_bytes},
          {"live_shared_bytes", balance.live_shared_bytes},
          {"cached_bytes", balance.cached_bytes},
          {"free_bytes", balance.free_bytes},
          {"metadata_bytes", balance.metadata_bytes},
          {"mapped_bytes", balance.mapped_bytes},
          {"peak_bytes", balance.peak_bytes},
          {"limit_bytes", balance.limit_bytes},
          {"live_tokens", balance.live_tokens},
          {"pages_resident_bytes", kv.pages_resident_bytes},
          {"process_resident_before_bytes", kv.process_resident_before_bytes},
          {"process_resident_after_bytes", kv.process_resident_after_bytes},
          {"mapped_weights_bytes", kv.model.mapped_weights_bytes},
          {"repacked_weights_bytes", kv.model.repacked_weights_bytes},
          {"packed_weights_bytes", kv.model.packed_weights_bytes},
          {"activation_bytes", kv.model.activation_bytes}};
}

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
                       {"completion_tokens", result.tokens.size()},
                       {"ttft_ms", Rounded(result.times.first_token * 1000)},
                       {"prefill_tps", Rounded(result.PrefillRate())},
                       {"decode_tps", Rounded(result.DecodeRate())},
                       {"seed", result.seed},
                       {"model", model},
                       {"kv", KvJson(kv)},
                       {"memory", MemoryJson(kv)}};
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
