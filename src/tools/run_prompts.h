// SPDX-License-Identifier: Apache-2.0
// Runs `swiftkv run --prompts`: answers many prompts together, and prints the replies in the order
// of the prompts.
#pragma once

#include <vector>

#include "swiftkv/status.h"
#include "tools/model_stack.h"
#include "tools/run_options.h"
#include "tools/run_prompt_list.h"

namespace swiftkv {

// Returns the exit status: 1 where a prompt was refused or failed, 130 after an interrupt; what was
// done until then is printed. Errors: those that concern all prompts.
Result<int> RunPrompts(const RunOptions& options, const ModelStack& stack,
                       const std::vector<PromptItem>& items);

}  // namespace swiftkv
