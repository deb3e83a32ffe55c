// SPDX-License-Identifier: Apache-2.0
// Says how a chat model writes reasoning and tool calls, and reads them from its replies. Layer:
// model.
//
// llama.cpp finds both out by rendering the model's template with and without them. Owner: any;
// const functions may be called from several threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/chat_message.h"
#include "model/vocabulary.h"
#include "swiftkv/sampler_options.h"
#include "swiftkv/status.h"

namespace swiftkv {

// What a reply may hold beside content.
struct ReplyWishes {
  std::vector<ChatTool> tools = {};  // that may be called
  ToolChoice choice = ToolChoice::kNone;
  bool parallel_calls = true;   // more than one call in a reply
  bool split_reasoning = true;  // tell reasoning apart, as far as the template marks it
  bool enable_thinking = true;  // as in RenderOptions
  // That the content must follow, where the reply does not call; empty: it is free.
  std::string json_schema = {};
};

// A control token whose text belongs to the format.
struct ShownToken {
  TokenId token = kNoToken;
  std::string text;
};

struct ParsedReply {
  std::string reasoning;
  std::string content;
  std::vector<ChatToolCall> tool_calls;

  friend bool operator==(const ParsedReply&, const ParsedReply&) = default;
};

class ReplyFormat {
 public:
  ~ReplyFormat();
  ReplyFormat(const ReplyFormat&) = delete;
  ReplyFormat& operator=(const ReplyFormat&) = delete;

  // Makes the sampler keep to the format; changes nothing where the reply is free.
  void Apply(SamplerOptions* sampling) const;
  // Control tokens that Parse must be shown, though they are no text of the reply otherwise.
  const std::vector<ShownToken>& shown_tokens() const;
  // Texts that end the reply and are no part of it.
  const std::vector<std::string>& stops() const;

  // Reads the reply so far, or all of it. What does not follow the format becomes content.
  ParsedReply Parse(const std::string& text, bool is_whole) const;

 private:
  friend class ReplyFormats;
  struct Impl;
  explicit ReplyFormat(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// Makes the formats of one template.
class ReplyFormats {
 public:
  // Errors: InvalidArgument for a template that does not parse.
  static Result<std::unique_ptr<ReplyFormats>> FromSource(const Vocabulary& vocabulary,
                                                          const std::string& source);
  ~ReplyFormats();
  ReplyFormats(const ReplyFormats&) = delete;
  ReplyFormats& operator=(const ReplyFormats&) = delete;

  // Returns the format of the reply to `messages`, which the template is rendered with, and which
  // ends the prompt with `reply_start`. A format is kept for requests that ask for the same:
  // finding it out takes dozens of renderings. Errors: InvalidArgument for a schema that cannot
  // become a grammar, or what the template refuses; Unsupported for a schema beside tools that may
  // be called where the template marks reasoning.
  Result<std::shared_ptr<const ReplyFormat>> Make(const std::vector<ChatMessage>& messages,
                                                  const std::string& reply_start,
                                                  const ReplyWishes& wishes) const;

  // Says whether the template marks reasoning in replies.
  bool marks_reasoning() const;

 private:
  struct Impl;
  explicit ReplyFormats(std::unique_ptr<Impl> impl);

  Result<std::shared_ptr<const ReplyFormat>> MakeAnew(const std::vector<ChatMessage>& messages,
                                                      const ReplyWishes& asked) const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace swiftkv
