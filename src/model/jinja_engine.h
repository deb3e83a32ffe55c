// SPDX-License-Identifier: Apache-2.0
// Runs one Jinja chat template with llama.cpp's engine. Layer: model.
//
// Owner: any; Run is const and may be called from several threads. A template is a program of the
// model's author: it is bounded in size and nesting, but what it computes is not.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/vocabulary.h"
#include "swiftkv/status.h"

namespace swiftkv {

// One message as the template sees it.
struct TemplateMessage {
  std::string role;
  std::string content;
};

struct TemplateFlags {
  bool add_generation_prompt = true;
  bool enable_thinking = true;
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

  // Returns the text with what came from contents marked as untrusted, as far as the engine's own
  // string operations keep track: pieces of a split and what a join returns count as the
  // template's. Errors: InvalidArgument with the words of the template's own exception, or of the
  // engine's.
  Result<std::vector<TextPart>> Run(const std::vector<TemplateMessage>& messages,
                                    const TemplateFlags& flags) const;

 private:
  struct Impl;
  explicit JinjaEngine(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace swiftkv
