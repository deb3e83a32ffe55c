// SPDX-License-Identifier: Apache-2.0
// Runs `swiftkv bench capacity`: how many requests fit into little memory, and how fast they are.
#pragma once

#include <span>

namespace swiftkv {

// `arguments` follow the words `bench capacity`. Returns the exit status.
int BenchCapacityCommand(std::span<const char* const> arguments);

}  // namespace swiftkv
