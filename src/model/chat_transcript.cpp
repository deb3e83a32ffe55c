// SPDX-License-Identifier: Apache-2.0
// Finds what the template puts between a reply and the next one, by rendering a stand-in for the
// reply.
#include "model/chat_transcript.h"

#include <cctype>
#include <random>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "model/token_text.h"

namespace swiftkv {
namespace {

// Random letters that no reply and no template holds.
std::string MakeStandIn() {
  std::random_device device;
  std::string text = "reply";
  for (int i = 0; i < 4; ++i) text += std::to_string(device());
  return text;
}

std::string Trimmed(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return std::string(text);
}

std::string Joined(const std::vector<TextPart>& parts) {
  std::string text;
  for (const TextPart& part : parts) text += part.text;
  return text;
}

// Returns the parts behind the first `bytes` of text.
std::vector<TextPart> Behind(std::size_t bytes, const std::vector<TextPart>& parts) {
  std::vector<TextPart> tail;
  for (const TextPart& part : parts) {
    if (bytes >= part.text.size()) {
      bytes -= part.text.size();
      continue;
    }
    tail.push_back({part.text.substr(bytes), part.trusted});
    bytes = 0;
  }
  return tail;
}

}  // namespace

ChatTranscript::ChatTranscript(const ChatTemplate& chat_template, std::string system,
                               RenderOptions options)
    : template_(&chat_template), options_(std::move(options)) {
  options_.add_generation_prompt = true;
  if (!system.empty()) messages_.push_back({"system", std::move(system)});
}

Result<std::vector<TokenId>> ChatTranscript::AddUserMessage(std::string content) {
  std::vector<ChatMessage> messages = messages_;
  messages.push_back({"user", std::move(content)});
  SKV_ASSIGN_OR_RETURN(const std::vector<TextPart> parts, template_->Render(messages, options_));
  SKV_ASSIGN_OR_RETURN(const std::vector<TextPart> tail, Continuation(messages, parts));
  std::vector<TokenId> tokens;
  if (tail.empty()) {
    SKV_ASSIGN_OR_RETURN(tokens, template_->Encode(parts, /*continues=*/false));
  } else {
    SKV_ASSIGN_OR_RETURN(const std::vector<TokenId> more,
                         template_->Encode(tail, /*continues=*/true));
    tokens = tokens_;
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  last_turn_extended_ = !tail.empty();
  messages_ = std::move(messages);
  prompt_text_ = Joined(parts);
  tokens_ = tokens;
  return tokens;
}

void ChatTranscript::AddReply(std::span<const TokenId> tokens) {
  const Vocabulary& vocabulary = template_->vocabulary();
  // What ends a turn comes from the template.
  while (!tokens.empty() && vocabulary.IsEndOfGeneration(tokens.back())) {
    tokens = tokens.first(tokens.size() - 1);
  }
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  messages_.push_back({"assistant", TextOfTokens(vocabulary, tokens)});
}

Result<std::vector<TextPart>> ChatTranscript::Continuation(
    const std::vector<ChatMessage>& messages, const std::vector<TextPart>& rendered) const {
  const bool follows_reply = messages.size() >= 2 && messages.end()[-2].role == "assistant";
  if (!follows_reply) return std::vector<TextPart>();
  const std::string reply = messages.end()[-2].content;
  const std::string stand_in = MakeStandIn();
  std::vector<ChatMessage> replaced = messages;
  replaced.end()[-2].content = stand_in;
  SKV_ASSIGN_OR_RETURN(const std::vector<TextPart> parts, template_->Render(replaced, options_));
  const std::string text = Joined(parts);
  const std::size_t at = text.find(stand_in);
  const std::size_t start = prompt_text_.size();
  // What was before the reply must be the last prompt as it was; some templates put a space
  // between.
  if (at == std::string::npos || at < start || !text.starts_with(prompt_text_) ||
      !Trimmed(text.substr(start, at - start)).empty()) {
    return std::vector<TextPart>();
  }
  // And the template must show the reply as it is but for white space around it.
  const std::size_t end = at + stand_in.size();
  const std::string suffix = text.substr(end);
  const std::string real = Joined(rendered);
  if (real.size() < start + suffix.size() || !real.starts_with(prompt_text_) ||
      !real.ends_with(suffix)) {
    return std::vector<TextPart>();
  }
  const std::string shown = real.substr(start, real.size() - start - suffix.size());
  if (Trimmed(shown) != Trimmed(reply)) return std::vector<TextPart>();
  return Behind(end, parts);
}

}  // namespace swiftkv
