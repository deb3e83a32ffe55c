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

void ChoiceText::Take(const TokenEvent& event) {
  if (ended_) return;
  begun_ = true;
  if (event.token >= 0) ++tokens_;
  if (event.token >= 0 && IsStopToken(event.token)) {
    news_.text += matcher_.Finish();
    return End("stop");
  }
  if (wants_logprobs_ && event.logprob) {
    news_.tokens.push_back({.drawn = *event.logprob, .top = event.top, .text_offset = characters_});
  }
  characters_ += CharactersOf(event.text);
  news_.text += matcher_.Feed(event.text);
  if (matcher_.stopped()) return End("stop");
  if (!event.finish) return;
  news_.text += matcher_.Finish();
  End(*event.finish == FinishReason::kLength ? "length" : "stop");
}

void ChoiceText::End(const char* reason) {
  news_.finish_reason = reason;
  ended_ = true;
}

bool ChoiceText::has_news() const {
  if (!begun_) return false;
  return !news_.text.empty() || !news_.tokens.empty() || !news_.finish_reason.empty();
}

ChoiceNews ChoiceText::TakeNews() {
  ChoiceNews next;
  next.index = news_.index;
  return std::exchange(news_, std::move(next));
}

}  // namespace swiftkv
