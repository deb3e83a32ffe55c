// SPDX-License-Identifier: Apache-2.0
// Runs `swiftkv bench serve`: load for an OpenAI-compatible server, and what its clients see.
#pragma once

#include <span>

namespace swiftkv {

// `arguments` follow the words `bench serve`. Returns the exit status.
int BenchServeCommand(std::span<const char* const> arguments);

}  // namespace swiftkv
