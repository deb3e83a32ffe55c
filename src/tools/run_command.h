// SPDX-License-Identifier: Apache-2.0
// Runs `swiftkv run`: one prompt, or a chat, in the terminal.
#pragma once

#include <span>

namespace swiftkv {

// `arguments` follow the word `run`. Returns the exit status.
int RunCommand(std::span<const char* const> arguments);

}  // namespace swiftkv
