// SPDX-License-Identifier: Apache-2.0
// Words the outcome of `run --prompts`: one JSON line for programs, replies and a footer for
// people.
#pragma once

#include <string>
#include <vector>

#include "swiftkv/engine.h"
#include "tools/kv_report.h"
#include "tools/run_prompt_list.h"

namespace swiftkv {

struct ChoiceReply {
  std::string text;
  std::vector<TokenId> tokens;
  FinishReason finish = FinishReason::kCancelled;  // until its end is told
};

struct PromptReply {
  bool ended = false;
  Status status;  // why it was refused or failed
  std::vector<ChoiceReply> choices;
  RequestUsage usage;
};

struct PromptTotals {
  EngineSnapshot engine;
  double seconds = 0;  // from the first prompt's submission to the last reply's end
};

// Returns the JSON object of `run --prompts --json` without a line break (docs/json.md).
std::string PromptsJson(const std::vector<PromptReply>& replies, const PromptTotals& totals,
                        const KvReport& kv, const std::string& model);

// Returns a reply under a line that names its prompt; `number` counts from 1.
std::string ReplyText(std::size_t number, const PromptItem& item, const PromptReply& reply);

// Returns the lines that follow the last reply, each with a line break.
std::string PromptsFooter(const std::vector<PromptReply>& replies, const PromptTotals& totals,
                          const KvReport& kv);

}  // namespace swiftkv
