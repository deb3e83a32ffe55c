// SPDX-License-Identifier: Apache-2.0
// Runs `swiftkv bench waste`: what part of a cache's memory holds no token.
#pragma once

#include <span>

namespace swiftkv {

// `arguments` follow the words `bench waste`. Returns the exit status.
int BenchWasteCommand(std::span<const char* const> arguments);

}  // namespace swiftkv
