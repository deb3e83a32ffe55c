// SPDX-License-Identifier: Apache-2.0
// Gets the prompt from the flag, a file or standard input.
#pragma once

#include <string>

#include "swiftkv/status.h"
#include "tools/run_options.h"

namespace swiftkv {

// Returns the prompt's text, less one line break at the end of a file. Errors: InvalidArgument
// where it is empty or no UTF-8; NotFound or Internal where the file cannot be read; Cancelled by
// an interrupt.
Result<std::string> ReadPrompt(const PromptOptions& options);

// Returns the whole of a small text file that an option names. Errors as above.
Result<std::string> ReadTextFile(const std::string& path);

// Returns the whole of the file, or of standard input where it is "-". Errors as above.
Result<std::string> ReadPromptFile(const std::string& path);

// Checks text that a user wrote. `name` is what it is called in the message. Errors:
// InvalidArgument.
Status CheckUtf8(const std::string& text, const std::string& name);

// Says whether the options ask for a chat: by flag, or by giving no prompt on a terminal.
bool WantsChat(const PromptOptions& options);

}  // namespace swiftkv
