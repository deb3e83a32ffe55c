// SPDX-License-Identifier: Apache-2.0
// Turns the engine's events of one choice into what its reader is told: text up to a stop, tokens,
// the reason of the end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/reply_json.h"
#include "server/reply_reader.h"
#include "server/stop_matcher.h"

namespace swiftkv {

class ChoiceText {
 public:
  // `echo` is told first and never searched for stops.
  ChoiceText(int index, const ReplyOptions& options, std::string echo);

  // Takes the next event; those after the end are dropped.
  void Take(const TokenEvent& event);
  // Takes tokens of the prompt, which the echo is the text of.
  void TakePrompt(const std::vector<PromptToken>& tokens);

  // Returns what has come since the last call.
  ChoiceNews TakeNews();
  bool has_news();

  bool ended() const { return ended_; }
  std::int64_t tokens() const {
    return tokens_;
  }  // of the reply, the one that completed a stop too

 private:
  void End(const char* reason);
  void Tell(const std::string& text);
  // Sorts what has come into reasoning, content and calls.
  void Sort();
  std::string ShownText(const TokenEvent& event) const;
  bool IsStopToken(std::int32_t token) const;

  std::vector<std::int32_t> stop_tokens_;
  bool wants_logprobs_;
  StopMatcher matcher_;
  std::vector<ShownToken> shown_tokens_;
  std::optional<ReplyReader> reader_;  // where a reply is more than content
  ChoiceNews news_;
  bool begun_ = false;          // something has come
  std::size_t characters_ = 0;  // that the tokens so far stand for
  std::int64_t tokens_ = 0;
  bool ended_ = false;
  bool sorted_end_ = false;  // the whole reply was sorted
};

}  // namespace swiftkv
