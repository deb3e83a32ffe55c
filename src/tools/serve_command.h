// SPDX-License-Identifier: Apache-2.0
// Runs `swiftkv serve`: a model behind HTTP until it is told to stop.
#pragma once

#include <span>

namespace swiftkv {

// `arguments` follow the word `serve`. Returns the exit status: success where a signal stopped it.
int ServeCommand(std::span<const char* const> arguments);

}  // namespace swiftkv
