// SPDX-License-Identifier: Apache-2.0
// Runs `swiftkv plan`: what fits a memory, before a model is loaded or bought a machine for.
#pragma once

#include <span>

namespace swiftkv {

// `arguments` follow the word `plan`. Returns the exit status; a model that does not fit is a
// success, since telling so is the job.
int PlanCommand(std::span<const char* const> arguments);

}  // namespace swiftkv
