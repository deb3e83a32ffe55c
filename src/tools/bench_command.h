// SPDX-License-Identifier: Apache-2.0
// Runs `swiftkv bench`: picks what to measure. The table of benches is in the source file.
#pragma once

#include <span>

namespace swiftkv {

// `arguments` follow the word `bench`. Returns the exit status.
int BenchCommand(std::span<const char* const> arguments);

}  // namespace swiftkv
