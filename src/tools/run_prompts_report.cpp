// SPDX-License-Identifier: Apache-2.0
// Formats the figures of many replies.
#include "tools/run_prompts_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "tools/kv_report_json.h"
#include "tools/options_json.h"
#include "tools/printable_text.h"

namespace swiftkv {
namespace {

using Json = nlohmann::ordered_json;

double Milliseconds(double seconds) { return std::round(seconds * 1e6) / 1000; }

double Rate(std::uint64_t tokens, double seconds) {
  return seconds > 0 ? std::round(static_cast<double>(tokens) / seconds * 1000) / 1000 : 0;
}

Json ReplyJson(const PromptReply& reply) {
  Json object = Json::object();
  if (!reply.status.ok()) object["error"] = reply.status.message();
  const RequestUsage& usage = reply.usage;
  object["text"] = reply.choices[0].text;
  object["tokens"] = reply.choices[0].tokens;
  object["finish_reason"] =
      reply.status.ok() ? Json(FinishReasonName(reply.choices[0].finish)) : Json();
  if (reply.choices.size() > 1) {
    Json choices = Json::array();
    for (const ChoiceReply& choice : reply.choices) {
      choices.push_back({{"text", choice.text},
                         {"tokens", choice.tokens},
                         {"finish_reason", FinishReasonName(choice.finish)}});
    }
    object["choices"] = choices;
  }
  object["prompt_tokens"] = usage.prompt_tokens;
  object["cached_tokens"] = usage.cached_tokens;
  object["prefix_end"] = PrefixEndName(usage.prefix_end);
  object["prefix_differs_at"] = PrefixDiffersAtJson(usage.prefix_differs_at);
  object["completion_tokens"] = usage.completion_tokens;
  object["seed"] = usage.seed;
  object["preemptions"] = usage.preemptions;
  const std::string& statistics = usage.kv.query_statistics;
  object["kv"] = {{"policy", usage.kv.policy},
                  {"kept_as", usage.kv.kept_as},
                  {"query_statistics", statistics.empty() ? Json() : Json(statistics)},
                  {"logical_tokens", usage.kv.logical_tokens},
                  {"kept_tokens", usage.kv.kept_tokens},
                  {"bytes_used", usage.kv.bytes},
                  {"compressed_tokens", usage.kv.compressed_tokens},
                  {"compactions", usage.kv.compactions},
                  {"compaction_ms", Milliseconds(usage.kv.compaction_seconds)}};
  object["queue_ms"] = Milliseconds(usage.queue_seconds);
  object["ttft_ms"] = Milliseconds(usage.first_token_seconds);
  object["total_ms"] = Milliseconds(usage.total_seconds);
  return object;
}

}  // namespace

std::string PromptsJson(const std::vector<PromptReply>& replies, const PromptTotals& totals,
                        const KvReport& kv, const std::string& model) {
  Json list = Json::array();
  for (const PromptReply& reply : replies) {
    if (reply.ended) list.push_back(ReplyJson(reply));
  }
  const EngineSnapshot& engine = totals.engine;
  Json object = {{"replies", list},
                 {"prompt_tokens", engine.prompt_tokens},
                 {"cached_tokens", engine.cached_tokens},
                 {"completion_tokens", engine.generated_tokens},
                 {"seconds", std::round(totals.seconds * 1000) / 1000},
                 {"tokens_per_s", Rate(engine.generated_tokens, totals.seconds)},
                 {"steps", engine.steps},
                 {"forward_ms", Milliseconds(engine.forward_seconds)},
                 {"busy_ms", Milliseconds(engine.busy_seconds)},
                 {"preemptions", engine.preemptions},
                 {"model", model}};
  object["kv"] = KvReportJson(kv);
  object["memory"] = MemoryReportJson(kv);
  return JsonLine(object);
}

std::string ReplyText(std::size_t number, const PromptItem& item, const PromptReply& reply) {
  std::string text = fmt::format("{}# {}: {}\n", number > 1 ? "\n" : "", number,
                                 PrintableExcerpt(item.prompt, 70));
  for (const ChoiceReply& choice : reply.choices) {
    text += choice.text;
    if (!choice.text.ends_with('\n')) text += '\n';
  }
  return text;
}

std::string PromptsFooter(const std::vector<PromptReply>& replies, const PromptTotals& totals,
                          const KvReport& kv) {
  const EngineSnapshot& engine = totals.engine;
  const auto ended = std::count_if(replies.begin(), replies.end(),
                                   [](const PromptReply& reply) { return reply.ended; });
  std::string footer = fmt::format(
      "\n{} replies in {:.2f} s: {} tokens, {:.1f} a second; prompts {} tokens, {} from the "
      "cache\n",
      ended, totals.seconds, engine.generated_tokens, Rate(engine.generated_tokens, totals.seconds),
      engine.prompt_tokens, engine.cached_tokens);
  footer += fmt::format("cache {}: at most {} of {}", kv.format, FormatByteSize(kv.peak_bytes),
                        FormatByteSize(kv.balance.limit_bytes));
  if (engine.preemptions > 0) footer += fmt::format("; {} preemptions", engine.preemptions);
  return footer + "\n";
}

}  // namespace swiftkv
