// SPDX-License-Identifier: Apache-2.0
// Renders chat messages into prompt text by the model's own Jinja template. Layer: model.
//
// Owner: any; rendering is const and thread-safe. The template engine marks which characters came
// from messages, also through trimming and upper-casing, so control tokens that a user types stay
// plain text when the parts are encoded (see Vocabulary::Encode). Roles are checked against a fixed
// list and trusted; contents never are.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/chat_message.h"
#include "model/reply_format.h"
#include "model/vocabulary.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct RenderOptions {
  bool add_generation_prompt = true;  // end with what starts the assistant's reply
  bool enable_thinking = true;        // as far as the template knows it
  std::vector<ChatTool> tools = {};   // that the template tells the model of
};

class ChatTemplate {
 public:
  // Takes the vocabulary's template. Errors: Unsupported when the model has none, DataLoss when it
  // does not parse.
  static Result<std::unique_ptr<ChatTemplate>> FromVocabulary(const Vocabulary& vocabulary);
  // Takes a template by its source, for tests and for a user's own file. Errors: InvalidArgument.
  static Result<std::unique_ptr<ChatTemplate>> FromSource(const Vocabulary& vocabulary,
                                                          const std::string& source);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // Returns the prompt, neighbours differing in trust. A template without a system role gets a
  // leading system message merged into the message after it, one without tools gets them as text.
  // Errors: InvalidArgument for no messages, an unknown role, content that is not UTF-8, arguments
  // that are no JSON object, or what the template itself refuses, with its own words.
  Result<std::vector<TextPart>> Render(const std::vector<ChatMessage>& messages,
                                       const RenderOptions& options) const;

  // Renders and encodes, BOS once where the model wants it.
  Result<std::vector<TokenId>> Tokens(const std::vector<ChatMessage>& messages,
                                      const RenderOptions& options) const;

  // Returns how the reply to `messages` is written and read; null where it is content and nothing
  // else, as far as `wishes` goes. A template that knows nothing of tools is given them as text,
  // and its replies are read likewise. Errors: InvalidArgument for a schema that cannot become a
  // grammar, or a template whose format of calls cannot be found out.
  Result<std::shared_ptr<const ReplyFormat>> Format(const std::vector<ChatMessage>& messages,
                                                    const ReplyWishes& wishes) const;

  // Says whether the template itself tells of tools and shows calls.
  bool knows_tools() const;

  // Encodes rendered parts; `continues` where they follow other tokens.
  Result<std::vector<TokenId>> Encode(const std::vector<TextPart>& parts, bool continues) const;

  // Tokens that are no control tokens but that the template builds turns from; untrusted text never
  // forms them.
  const std::vector<TokenId>& marker_tokens() const;
  const Vocabulary& vocabulary() const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace swiftkv
