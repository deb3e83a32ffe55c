// SPDX-License-Identifier: Apache-2.0
// Runs `swiftkv bench engine`: many requests at once, and a stream that a long prompt joins.
#pragma once

#include <span>

namespace swiftkv {

// `arguments` follow the words `bench engine`. Returns the exit status.
int BenchEngineCommand(std::span<const char* const> arguments);

}  // namespace swiftkv
