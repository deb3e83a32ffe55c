// SPDX-License-Identifier: Apache-2.0
// Runs `swiftkv bench attention`: kernels beside the machine's own speed.
#pragma once

#include <span>

namespace swiftkv {

// `arguments` follow the words `bench attention`. Returns the exit status.
int BenchAttentionCommand(std::span<const char* const> arguments);

}  // namespace swiftkv
