// SPDX-License-Identifier: Apache-2.0
// Runs `swiftkv inspect`: what is in a GGUF file, and whether it will run; with --memory, what it
// takes when it does.
#pragma once

#include <span>

namespace swiftkv {

// `arguments` follow the word `inspect`. Returns the exit status; a readable file that cannot be
// run is a success, since telling so is the job.
int InspectCommand(std::span<const char* const> arguments);

}  // namespace swiftkv
