// SPDX-License-Identifier: Apache-2.0
// Reads streams without waiting and words what they say.
#include "server/generation.h"

#include <chrono>
#include <utility>

namespace swiftkv {
namespace {

// A full queue empties; a prompt that memory cannot hold never fits, which the gate says at once
// and a pass that ran alone says later.
ApiError ErrorOfStream(const Status& status) {
  ApiError error = ErrorOf(status);
  if (status.code() == StatusCode::kResourceExhausted) {
    error.http_status = 400;
    error.type = "invalid_request_error";
    error.code = "context_length_exceeded";
  }
  return error;
}

const ApiError& ShuttingDown() {
  static const ApiError error{.http_status = 503,
                              .message = "the server is stopping; the reply is incomplete",
                              .type = "service_unavailable_error",
                              .code = "service_unavailable"};
  return error;
}

std::string NameOf(const std::optional<KvFormat>& format, const std::string& otherwise) {
  if (!format) return otherwise;
  return format->key == format->value ? format->key : format->key + "/" + format->value;
}

}  // namespace

Generation::Generation(const ServedModel& model, ReplyOptions options)
    : options_(std::move(options)), json_(options_.kind, model.vocabulary, model.name) {}

std::unique_ptr<Generation> Generation::Start(const ServedModel& model, GenerationTask task,
                                              const std::function<void()>& wake, ApiError* error) {
  std::unique_ptr<Generation> made(new Generation(model, std::move(task.reply)));
  made->choices_each_ = task.requests.front().choices;
  made->kv_format_ = NameOf(task.requests.front().format, model.kv_format);
  for (std::size_t i = 0; i < task.requests.size(); ++i) {
    for (int choice = 0; choice < made->choices_each_; ++choice) {
      made->choices_.emplace_back(static_cast<int>(made->choices_.size()), made->options_,
                                  task.echoes[i]);
    }
    EngineRequest request = std::move(task.requests[i]);
    request.on_ready = wake;
    Result<TokenStream> stream = model.engine->Submit(std::move(request));
    if (!stream.ok()) {
      *error = ErrorOf(stream.status());
      return nullptr;
    }
    made->parts_.push_back({.stream = std::move(stream).value()});
  }
  return made;
}

void Generation::Read(std::size_t part) {
  Part& own = parts_[part];
  const std::size_t first = part * static_cast<std::size_t>(choices_each_);
  const auto choices = std::span(choices_).subspan(first, static_cast<std::size_t>(choices_each_));
  TokenEvent event;
  StreamOutcome outcome = StreamOutcome::kTimeout;
  while ((outcome = own.stream.Next(&event, std::chrono::milliseconds(0))) ==
         StreamOutcome::kEvent) {
    if (!event.prompt.empty()) {
      for (ChoiceText& one : choices) one.TakePrompt(event.prompt);
      continue;
    }
    ChoiceText& choice = choices[static_cast<std::size_t>(event.choice)];
    const bool cut_short = event.finish == FinishReason::kCancelled && !choice.ended();
    if (cut_short) return Fail(ShuttingDown());
    const bool was_open = !choice.ended();
    choice.Take(event);
    // Ended by a stop string, of which the engine does not know.
    if (was_open && choice.ended() && !event.finish) own.stream.Finish(event.choice);
  }
  if (outcome != StreamOutcome::kEnd) return;
  own.ended = true;
  if (!own.stream.status().ok()) Fail(ErrorOfStream(own.stream.status()));
}

void Generation::Advance() {
  if (ended_) return;
  bool all_ended = true;
  for (std::size_t i = 0; i < parts_.size() && !ended_; ++i) {
    if (!parts_[i].ended) Read(i);
    all_ended = all_ended && parts_[i].ended;
  }
  if (ended_) return;
  if (options_.stream) TellNews();
  if (all_ended) End();
}

void Generation::TellNews() {
  for (ChoiceText& choice : choices_) {
    if (!choice.has_news()) continue;
    streams_ = true;
    for (const Json& event : json_.Events(choice.TakeNews(), options_.include_usage)) {
      events_ += ServerSentEvent(event);
    }
  }
}

void Generation::End() {
  ended_ = true;
  if (!streams_) return;
  if (options_.include_usage) events_ += ServerSentEvent(json_.UsageEvent(Usage()));
  events_ += kLastServerSentEvent;
}

void Generation::Fail(const ApiError& error) {
  ended_ = true;
  error_ = error;
  if (options_.stream) TellNews();
  if (streams_) events_ += ServerSentEvent(ErrorJson(error)) + kLastServerSentEvent;
}

ReplyUsage Generation::Usage() const {
  ReplyUsage usage;
  usage.kv_format = kv_format_;
  for (const Part& part : parts_) {
    const RequestUsage own = part.stream.usage();
    usage.prompt_tokens += own.prompt_tokens;
    usage.cached_tokens += own.cached_tokens;
  }
  for (const ChoiceText& choice : choices_) usage.completion_tokens += choice.tokens();
  usage.first = parts_.front().stream.usage();
  return usage;
}

HttpReply Generation::TakeReply() {
  if (error_) return ErrorReply(*error_);
  std::vector<ChoiceNews> news;
  news.reserve(choices_.size());
  for (ChoiceText& choice : choices_) news.push_back(choice.TakeNews());
  HttpReply reply;
  reply.body = WriteJson(json_.Whole(news, Usage()));
  return reply;
}

}  // namespace swiftkv
