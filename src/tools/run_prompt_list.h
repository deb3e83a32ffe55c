// SPDX-License-Identifier: Apache-2.0
// Reads the file of `run --prompts`: one prompt a line, or one JSON object a line.
//
// A file is taken for JSON lines where its first line that is not empty begins with {. An object
// has the field `prompt` and may have `system`, `priority`, `choices` and the sampling options and
// `max_tokens` by the names that `run` dumps them with (docs/options.md); what it does not say is
// as on the command line.
#pragma once

#include <string>
#include <vector>

#include "engine/engine_options.h"
#include "swiftkv/sampler_options.h"
#include "swiftkv/status.h"
#include "tools/model_stack.h"
#include "tools/run_options.h"

namespace swiftkv {

struct PromptItem {
  std::string prompt;
  std::string system;
  int priority = 0;
  int choices = 1;
  GenerationOptions generation;
  SamplerOptions sampling;
};

// Returns the items of the file's text, empty lines left out. Errors: InvalidArgument with the
// line's number for what is no UTF-8, no JSON object or has a field that is unknown or bad, and
// where there is no prompt at all.
Result<std::vector<PromptItem>> ParsePromptList(const std::string& text, const RunOptions& options);

// Returns the tokens of a prompt, as a chat's first message where the model has a template. Errors:
// Unsupported for a system message without a template; those of the vocabulary.
Result<std::vector<TokenId>> PromptTokens(const ModelStack& stack, const std::string& system,
                                          const std::string& prompt);

}  // namespace swiftkv
