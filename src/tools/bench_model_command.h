// SPDX-License-Identifier: Apache-2.0
// Runs `swiftkv bench model`: a model's tokens per second behind contexts of some depths.
#pragma once

#include <span>

namespace swiftkv {

// `arguments` follow the words `bench model`. Returns the exit status.
int BenchModelCommand(std::span<const char* const> arguments);

}  // namespace swiftkv
