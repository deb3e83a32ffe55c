// SPDX-License-Identifier: Apache-2.0
// Picks the subcommand and runs it. The table of subcommands is in the source file.
#pragma once

#include <span>

namespace swiftkv {

// `arguments` follow the program's name. Returns the exit status.
int RunCommandLine(std::span<const char* const> arguments);

}  // namespace swiftkv
