// SPDX-License-Identifier: Apache-2.0
// Follows one choice from event to event.
#include "server/choice_text.h"

#include <algorithm>
#include <utility>

namespace swiftkv {
namespace {

std::size_t CharactersOf(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

ChoiceText::ChoiceText(int index, const ReplyOptions& options, std::string echo)
    : stop_tokens_(options.stop_tokens),
      wants_logprobs_(options.top_logprobs >= 0),
      matcher_(options.stops) {
  news_.index = index;
  news_.first = true;
  news_.text = std::move(echo);
  if (options.format == nullptr) return;
  shown_tokens_ = options.format->shown_tokens();
  reader_.emplace(options.format);
}

bool ChoiceText::IsStopToken(std::int32_t token) const {
  return std::find(stop_tokens_.begin(), stop_tokens_.end(), token) != stop_tokens_.end();
}

void ChoiceText::TakePrompt(const std::vector<PromptToken>& tokens) {
  begun_ = true;
  for (const PromptToken& told : tokens) {
    ToldToken one;
    one.drawn.token = told.token;
    if (told.logprob) one.drawn = *told.logprob;
    one.is_first = !told.logprob;
    one.top = told.top;
    one.text_offset = characters_;
    news_.tokens.push_back(std::move(one));
    characters_ += CharactersOf(told.text);
  }
}

std::string ChoiceText::ShownText(const TokenEvent& event) const {
  for (const ShownToken& shown : shown_tokens_) {
    if (shown.token == event.token) return event.text + shown.text;
  }
  return event.text;
}

void ChoiceText::Tell(const std::string& text) {
  if (reader_) {
    reader_->Add(text);
  } else {
    news_.text += text;
  }
}

void ChoiceText::Take(const TokenEvent& event) {
  if (ended_) return;
  begun_ = true;
  if (event.token >= 0) ++tokens_;
  if (event.token >= 0 && IsStopToken(event.token)) {
    Tell(matcher_.Finish());
    return End("stop");
  }
  if (wants_logprobs_ && event.logprob) {
    news_.tokens.push_back({.drawn = *event.logprob, .top = event.top, .text_offset = characters_});
  }
  characters_ += CharactersOf(event.text);
  Tell(matcher_.Feed(ShownText(event)));
  if (matcher_.stopped()) return End("stop");
  if (!event.finish) return;
  Tell(matcher_.Finish());
  End(*event.finish == FinishReason::kLength ? "length" : "stop");
}

void ChoiceText::End(const char* reason) {
  news_.finish_reason = reason;
  ended_ = true;
}

void ChoiceText::Sort() {
  if (!reader_ || sorted_end_) return;
  sorted_end_ = ended_;
  const bool is_whole = ended_ && news_.finish_reason != "length";
  ReplyNews sorted = reader_->Read(is_whole);
  news_.text += sorted.content;
  news_.reasoning += sorted.reasoning;
  for (ToolCallNews& call : sorted.calls) news_.calls.push_back(std::move(call));
  if (is_whole && reader_->has_calls()) news_.finish_reason = "tool_calls";
}

bool ChoiceText::has_news() {
  if (!begun_) return false;
  Sort();
  return !news_.text.empty() || !news_.reasoning.empty() || !news_.calls.empty() ||
         !news_.tokens.empty() || !news_.finish_reason.empty();
}

ChoiceNews ChoiceText::TakeNews() {
  Sort();
  ChoiceNews next;
  next.index = news_.index;
  return std::exchange(news_, std::move(next));
}

}  // namespace swiftkv
