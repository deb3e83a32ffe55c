// SPDX-License-Identifier: Apache-2.0
// Keeps an interactive chat as tokens, so that each turn extends the prompt of the last one. Layer:
// model.
//
// Owner: one chat. A reply stays as the ids that were sampled; the text around it comes from the
// template. Where the template rewrites what came before (it drops earlier reasoning, say), the
// turn is rendered afresh and shares only what it has in common.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/chat_template.h"

namespace swiftkv {

class ChatTranscript {
 public:
  // `chat_template` must outlive the transcript. An empty `system` adds no system message.
  ChatTranscript(const ChatTemplate& chat_template, std::string system, RenderOptions options = {});

  // Adds the user's message and returns the whole prompt of the turn. On an error the transcript is
  // unchanged. Errors: those of ChatTemplate::Render.
  Result<std::vector<TokenId>> AddUserMessage(std::string content);

  // Adds the reply to the last prompt: the sampled ids, with or without the token that ended it.
  void AddReply(std::span<const TokenId> tokens);

  const std::vector<ChatMessage>& messages() const { return messages_; }
  // Says whether the last prompt starts with all tokens of the one before and its reply.
  bool last_turn_extended() const { return last_turn_extended_; }

 private:
  // Returns the parts of `rendered` (all of `messages`) behind the last reply where they can follow
  // `tokens_` as they are, else nothing.
  Result<std::vector<TextPart>> Continuation(const std::vector<ChatMessage>& messages,
                                             const std::vector<TextPart>& rendered) const;

  const ChatTemplate* template_;
  RenderOptions options_;
  std::vector<ChatMessage> messages_;
  std::string prompt_text_;      // the last prompt
  std::vector<TokenId> tokens_;  // the last prompt and, once added, its reply
  bool last_turn_extended_ = false;
};

}  // namespace swiftkv
