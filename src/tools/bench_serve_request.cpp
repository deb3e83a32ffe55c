// SPDX-License-Identifier: Apache-2.0
// Maps the API's JSON to plain data, and how a reply ended to a kind of failure.
#include "tools/bench_serve_request.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/printable_text.h"

namespace swiftkv {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kShownWidth = 160;

double Seconds(ServeClock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Returns the member at a path of objects, or null.
const Json* Find(const Json& json, std::initializer_list<const char*> path) {
  const Json* found = &json;
  for (const char* const key : path) {
    if (!found->is_object()) return nullptr;
    const auto member = found->find(key);
    if (member == found->end()) return nullptr;
    found = &*member;
  }
  return found;
}

int IntegerAt(const Json& json, std::initializer_list<const char*> path, int otherwise) {
  const Json* const found = Find(json, path);
  return found != nullptr && found->is_number_integer() ? found->get<int>() : otherwise;
}

std::string TextAt(const Json& json, std::initializer_list<const char*> path) {
  const Json* const found = Find(json, path);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

// Returns what an error object says; a body that is none as it is.
std::string MessageOf(const std::string& body) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  std::string message = TextAt(json, {"error", "message"});
  if (message.empty()) message = TextAt(json, {"message"});
  return PrintableExcerpt(message.empty() ? body : message, kShownWidth);
}

const char* EndName(HttpEnd end) {
  switch (end) {
    case HttpEnd::kComplete:
      return "";
    case HttpEnd::kRefused:
      return "not_connected";
    case HttpEnd::kClosed:
      return "closed_early";
    case HttpEnd::kTimedOut:
      return "timeout";
    case HttpEnd::kMalformed:
      return "malformed";
    case HttpEnd::kDropped:
      return "stopped";
  }
  return "";
}

}  // namespace

void ServeConversation::Say(const ServeTurn& turn) {
  ids_ = turn.ids;
  texts_.push_back(turn.text);
  output_tokens_ = turn.output_tokens;
}

void ServeConversation::Hear(const std::string& reply) { texts_.push_back(reply); }

std::string ServeConversation::RequestBody(const BenchServeOptions& options,
                                           const std::string& model) const {
  Json body = Json::object();
  if (!model.empty()) body["model"] = model;
  if (chat_) {
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      body["messages"].push_back(
          {{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", texts_[i]}});
    }
  } else if (!ids_.empty()) {
    body["prompt"] = ids_;
  } else {
    std::string prompt;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      prompt += (i > 0 && i % 2 == 0 ? " " : "") + texts_[i];
    }
    body["prompt"] = prompt;
  }
  body["max_tokens"] = output_tokens_;
  body["temperature"] = options.workload.temperature;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  if (options.workload.ignore_eos) body["ignore_eos"] = true;
  if (!options.target.extra_body.empty()) body.update(Json::parse(options.target.extra_body));
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void ServeReplyReader::Read(const std::string& data, ServeClock::time_point time) {
  if (data == "[DONE]") {
    ended_ = done_ = true;
    return;
  }
  const Json event = Json::parse(data, nullptr, /*allow_exceptions=*/false);
  if (!event.is_object()) {
    garbled_ = true;
    return;
  }
  if (const Json* const error = Find(event, {"error"}); error != nullptr && !error->is_null()) {
    error_ = MessageOf(data);
  }
  if (const Json* const choices = Find(event, {"choices"});
      choices != nullptr && choices->is_array()) {
    for (const Json& choice : *choices) ReadChoice(choice, time);
  }
  ReadUsage(event);
}

void ServeReplyReader::ReadChoice(const Json& choice, ServeClock::time_point time) {
  choices_.push_back(time);
  std::string text = TextAt(choice, {"text"});
  if (text.empty()) text = TextAt(choice, {"delta", "content"});
  text_ += text;
  const Json* const calls = Find(choice, {"delta", "tool_calls"});
  const bool thinks = !TextAt(choice, {"delta", "reasoning_content"}).empty() ||
                      !TextAt(choice, {"delta", "reasoning"}).empty();
  if (!text.empty() || thinks || (calls != nullptr && calls->is_array() && !calls->empty())) {
    texts_.push_back(time);
  }
  ended_ = ended_ || !TextAt(choice, {"finish_reason"}).empty();
}

void ServeReplyReader::ReadUsage(const Json& event) {
  prompt_tokens_ = IntegerAt(event, {"usage", "prompt_tokens"}, prompt_tokens_);
  output_tokens_ = IntegerAt(event, {"usage", "completion_tokens"}, output_tokens_);
  // llama-server's own field, for versions whose usage has no details.
  cached_tokens_ = IntegerAt(event, {"timings", "cache_n"}, cached_tokens_);
  cached_tokens_ =
      IntegerAt(event, {"usage", "prompt_tokens_details", "cached_tokens"}, cached_tokens_);
}

std::string ServeReplyReader::Failure(const ServedReply& reply) const {
  if (!error_.empty()) return "error_event";
  const bool is_whole = reply.end == HttpEnd::kComplete || (reply.end == HttpEnd::kClosed && done_);
  if (!is_whole) return EndName(reply.end);
  if (reply.status != 200) return fmt::format("http_{}", reply.status);
  if (garbled_) return "malformed";
  if (choices_.empty()) return "empty_reply";
  return ended_ ? "" : "unfinished";
}

void ServeReplyReader::Finish(const ServedReply& reply, ServeClock::time_point origin,
                              int planned_tokens, ServeRecord* record) const {
  record->start = Seconds(sent_ - origin);
  record->end = Seconds(ServeClock::now() - origin);
  record->failure = Failure(reply);
  if (!record->failure.empty()) {
    record->detail = !error_.empty()         ? error_
                     : !reply.body.empty()   ? MessageOf(reply.body)
                     : !reply.detail.empty() ? reply.detail
                                             : "the reply held no text";
  }
  record->prompt_tokens = prompt_tokens_ >= 0 ? prompt_tokens_ : planned_tokens;
  record->cached_tokens = cached_tokens_;
  const std::vector<ServeClock::time_point>& seen = texts_.empty() ? choices_ : texts_;
  record->counted_by_events = output_tokens_ < 0;
  record->output_tokens = output_tokens_ >= 0 ? output_tokens_ : static_cast<int>(seen.size());
  for (const ServeClock::time_point time : seen) {
    record->token_times.push_back(Seconds(time - origin));
  }
  for (std::size_t i = 1; i < seen.size(); ++i) {
    record->itls.push_back(Seconds(seen[i] - seen[i - 1]));
  }
  if (choices_.empty()) return;
  record->ttft = Seconds(seen.front() - sent_);
  record->e2el = Seconds(choices_.back() - sent_);
}

}  // namespace swiftkv
