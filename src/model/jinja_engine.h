// SPDX-License-Identifier: Apache-2.0
// Runs one Jinja chat template with llama.cpp's engine. Layer: model.
//
// Owner: any; Run is const and may be called from several threads. A template is a program of the
// model's author: it is bounded in size and nesting, but what it computes is not.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/chat_message.h"
#include "model/vocabulary.h"
#include "swiftkv/status.h"

namespace swiftkv {

// What a template is told beside the messages.
struct TemplateInput {
  bool add_generation_prompt = true;
  bool enable_thinking = true;
  std::span<const ChatTool> tools = {};
  // Changes each text that is not the template's own, keys of JSON included, before it is given to
  // the template; empty: changes none.
  std::function<std::string(const std::string&)> edit = {};
};

class JinjaEngine {
 public:
  // `bos` and `eos` are the texts that the template knows by those names. Errors: InvalidArgument
  // with the parser's words.
  static Result<std::unique_ptr<JinjaEngine>> Parse(const std::string& source, std::string bos,
                                                    std::string eos);
  ~JinjaEngine();
  JinjaEngine(const JinjaEngine&) = delete;
  JinjaEngine& operator=(const JinjaEngine&) = delete;

  // Says whether the template shows a leading system message.
  bool supports_system_role() const;
  // Says whether the template tells of tools and shows calls of them.
  bool supports_tools() const;

  // Returns the text with what came from messages and tools marked as untrusted, as far as the
  // engine's own string operations keep track: pieces of a split, what a join returns and what is
  // written as JSON count as the template's. Errors: InvalidArgument for arguments or parameters
  // that are no JSON, and with the words of the template's own exception, or of the engine's.
  Result<std::vector<TextPart>> Run(const std::vector<ChatMessage>& messages,
                                    const TemplateInput& input) const;

 private:
  struct Impl;
  explicit JinjaEngine(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace swiftkv
