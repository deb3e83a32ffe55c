// SPDX-License-Identifier: Apache-2.0
// Holds a chat in the terminal; each turn computes only what the cache does not hold yet.
//
// Lines /exit, /reset and /help are commands, a line that ends with a backslash goes on in the next
// one, Ctrl-C stops a reply, Ctrl-D leaves.
#pragma once

#include <string>

#include "swiftkv/status.h"
#include "tools/model_stack.h"
#include "tools/run_options.h"

namespace swiftkv {

// Runs until the user leaves. `first_message` opens the chat where it is not empty. Returns the
// exit status. Errors: input or output that fails, and a model without a chat template.
Result<int> RunChat(const RunOptions& options, const ModelStack& stack,
                    const std::string& first_message);

}  // namespace swiftkv
