// SPDX-License-Identifier: Apache-2.0
// Runs `swiftkv eval`: measures what page formats lose on a model.
#pragma once

#include <span>

namespace swiftkv {

// `arguments` follow the word `eval`. Returns the exit status.
int EvalCommand(std::span<const char* const> arguments);

}  // namespace swiftkv
