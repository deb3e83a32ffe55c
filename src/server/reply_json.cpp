// SPDX-License-Identifier: Apache-2.0
// Builds reply objects field by field, in the order in which the API shows them.
#include "server/reply_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <utility>

#include "base/utf8.h"
#include "swiftkv/prefix_sharing.h"

namespace swiftkv {
namespace {

std::string RandomId(const char* prefix) {
  std::random_device device;
  return fmt::format("{}-{:08x}{:08x}{:08x}", prefix, device(), device(), device());
}

const char* IdPrefix(ReplyKind kind) {
  switch (kind) {
    case ReplyKind::kCompletion:
      return "cmpl";
    case ReplyKind::kChat:
      return "chatcmpl";
    case ReplyKind::kCompressedPrefix:
      return "kvc";
  }
  return "id";
}

Json UsageJson(const ReplyUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

// That other tenants asked the same is nobody's business: it reads as if nobody had.
const char* ToldPrefixEnd(PrefixEnd end) {
  return PrefixEndName(end == PrefixEnd::kSalt ? PrefixEnd::kNeverSeen : end);
}

// What the cache held of the request at its end.
Json KeptJson(const KvUsage& kv) {
  return {{"policy", kv.policy},
          {"kept_as", kv.kept_as},
          {"query_statistics", kv.query_statistics.empty() ? Json() : Json(kv.query_statistics)},
          {"logical_tokens", kv.logical_tokens},
          {"kept_tokens", kv.kept_tokens},
          {"bytes", kv.bytes},
          {"compressed_tokens", kv.compressed_tokens},
          {"compactions", kv.compactions},
          {"compaction_ms", kv.compaction_seconds * 1e3}};
}

Json CacheJson(const ReplyUsage& usage) {
  const RequestUsage& first = usage.first;
  return {
      {"kv_format", usage.kv_format},
      {"kv", KeptJson(first.kv)},
      {"prefix_end", ToldPrefixEnd(first.prefix_end)},
      {"prefix_differs_at", first.prefix_differs_at < 0 ? Json() : Json(first.prefix_differs_at)},
      {"preemptions", first.preemptions},
      {"seed", static_cast<std::int64_t>(first.seed)},  // as requests give it
      {"queue_ms", first.queue_seconds * 1e3},
      {"ttft_ms", first.first_token_seconds * 1e3},
      {"total_ms", first.total_seconds * 1e3}};
}

// JSON has no infinity, and none is meant to come.
float Finite(float logprob) { return std::max(logprob, -9999.0F); }

// How the API writes a token that is no whole character: bytes:\xe2\x82.
std::string TokenName(const std::string& piece) {
  if (IsValidUtf8(piece)) return piece;
  std::string name = "bytes:";
  for (const char c : piece) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return name;
}

// A message; `news` tells all of it.
Json MessageJson(const ChoiceNews& news) {
  Json message = {{"role", "assistant"}, {"content", news.text}};
  if (!news.reasoning.empty()) message["reasoning_content"] = news.reasoning;
  if (news.calls.empty()) return message;
  if (news.text.empty()) message["content"] = nullptr;
  message["tool_calls"] = Json::array();
  for (const ToolCallNews& call : news.calls) {
    message["tool_calls"].push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

// The deltas of a call: who is called first, then pieces of the arguments.
std::vector<Json> CallDeltas(const ToolCallNews& call) {
  std::vector<Json> deltas;
  if (!call.name.empty()) {
    deltas.push_back({{"index", call.index},
                      {"id", call.id},
                      {"type", "function"},
                      {"function", {{"name", call.name}, {"arguments", ""}}}});
  }
  if (!call.arguments.empty()) {
    deltas.push_back({{"index", call.index}, {"function", {{"arguments", call.arguments}}}});
  }
  return deltas;
}

}  // namespace

ReplyJson::ReplyJson(ReplyKind kind, const Vocabulary* vocabulary, std::string model)
    : kind_(kind),
      vocabulary_(vocabulary),
      model_(std::move(model)),
      id_(RandomId(IdPrefix(kind))),
      created_(std::time(nullptr)) {}

Json ReplyJson::Envelope(const char* object) const {
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}};
}

Json ReplyJson::ChatLogprob(const TokenLogprob& told) const {
  const std::string piece = vocabulary_->TokenToPiece(told.token, /*show_control=*/true);
  Json bytes = Json::array();
  for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", TokenName(piece)}, {"logprob", Finite(told.logprob)}, {"bytes", bytes}};
}

Json ReplyJson::CompletionLogprobs(const std::vector<ToldToken>& tokens) const {
  Json texts = Json::array();
  Json logprobs = Json::array();
  Json top = Json::array();
  Json offsets = Json::array();
  const auto name = [this](const TokenLogprob& one) {
    return TokenName(vocabulary_->TokenToPiece(one.token, /*show_control=*/true));
  };
  for (const ToldToken& told : tokens) {
    texts.push_back(name(told.drawn));
    offsets.push_back(told.text_offset);
    if (told.is_first) {
      logprobs.push_back(nullptr);
      top.push_back(nullptr);
      continue;
    }
    logprobs.push_back(Finite(told.drawn.logprob));
    // Of tokens that have one name the drawn one keeps it, then the likelier.
    Json best = {{name(told.drawn), Finite(told.drawn.logprob)}};
    for (const TokenLogprob& one : told.top) best.emplace(name(one), Finite(one.logprob));
    top.push_back(std::move(best));
  }
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(top)},
          {"text_offset", std::move(offsets)}};
}

Json ReplyJson::Logprobs(const std::vector<ToldToken>& tokens) const {
  if (tokens.empty()) return {};
  if (kind_ == ReplyKind::kCompletion) return CompletionLogprobs(tokens);
  Json content = Json::array();
  for (const ToldToken& told : tokens) {
    Json entry = ChatLogprob(told.drawn);
    entry["top_logprobs"] = Json::array();
    for (const TokenLogprob& one : told.top) entry["top_logprobs"].push_back(ChatLogprob(one));
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}};
}

Json ReplyJson::Choice(const ChoiceNews& news, bool streamed) const {
  Json choice = {{"index", news.index}};
  if (kind_ == ReplyKind::kCompletion) {
    choice["text"] = news.text;
  } else if (streamed) {
    choice["delta"] = news.text.empty() ? Json::object() : Json{{"content", news.text}};
  } else {
    choice["message"] = MessageJson(news);
  }
  choice["logprobs"] = Logprobs(news.tokens);
  choice["finish_reason"] = news.finish_reason.empty() ? Json() : Json(news.finish_reason);
  return choice;
}

Json ReplyJson::Delta(int index, Json delta) const {
  ChoiceNews none;
  none.index = index;
  Json choice = Choice(none, /*streamed=*/true);
  choice["delta"] = std::move(delta);
  return choice;
}

std::vector<Json> ReplyJson::Events(const ChoiceNews& news, bool with_usage) const {
  const bool chat = kind_ == ReplyKind::kChat;
  Json event = Envelope(chat ? "chat.completion.chunk" : "text_completion");
  std::vector<Json> events;
  const auto add = [&](Json choice) {
    event["choices"] = Json::array({std::move(choice)});
    if (with_usage) event["usage"] = nullptr;
    events.push_back(event);
  };
  if (chat && news.first) {
    add(Delta(news.index, {{"role", "assistant"}, {"content", ""}}));
  }
  if (!news.reasoning.empty()) {
    add(Delta(news.index, {{"reasoning_content", news.reasoning}}));
  }
  // Chat clients look for the finish reason beside an empty delta.
  ChoiceNews text = news;
  if (chat) text.finish_reason.clear();
  if (!text.text.empty() || !text.tokens.empty() || !text.finish_reason.empty()) {
    add(Choice(text, /*streamed=*/true));
  }
  for (const ToolCallNews& call : news.calls) {
    for (Json& delta : CallDeltas(call)) {
      add(Delta(news.index, {{"tool_calls", Json::array({std::move(delta)})}}));
    }
  }
  if (chat && !news.finish_reason.empty()) {
    ChoiceNews end;
    end.index = news.index;
    end.finish_reason = news.finish_reason;
    add(Choice(end, /*streamed=*/true));
  }
  return events;
}

Json ReplyJson::UsageEvent(const ReplyUsage& usage) const {
  Json event = Envelope(kind_ == ReplyKind::kChat ? "chat.completion.chunk" : "text_completion");
  event["choices"] = Json::array();
  event["usage"] = UsageJson(usage);
  event["swiftkv"] = CacheJson(usage);
  return event;
}

Json ReplyJson::Whole(const std::vector<ChoiceNews>& choices, const ReplyUsage& usage) const {
  if (kind_ == ReplyKind::kCompressedPrefix) {
    Json reply = Envelope("kv.compressed_prefix");
    reply["usage"] = UsageJson(usage);
    reply["swiftkv"] = CacheJson(usage);
    return reply;
  }
  Json reply = Envelope(kind_ == ReplyKind::kChat ? "chat.completion" : "text_completion");
  reply["choices"] = Json::array();
  for (const ChoiceNews& news : choices) {
    reply["choices"].push_back(Choice(news, /*streamed=*/false));
  }
  reply["usage"] = UsageJson(usage);
  reply["swiftkv"] = CacheJson(usage);
  return reply;
}

std::string ServerSentEvent(const Json& data) { return "data: " + WriteJson(data) + "\n\n"; }

}  // namespace swiftkv
