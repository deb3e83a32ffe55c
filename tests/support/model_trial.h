// SPDX-License-Identifier: Apache-2.0
// Does with a GGUF everything that the program does with one: opens, loads, tokenises, computes.
#pragma once

#include <string>

#include "swiftkv/status.h"

namespace swiftkv {

// Returns the first error on the way, or OK where the model loads and gives finite logits for a few
// tokens. kInternal means that logits were not finite, which no file may cause without an error. A
// model whose weights are above 64 MiB is only described, so that a fuzzer's runs stay short.
Status TryModelFile(const std::string& path);

// The same for a file that exists in memory only.
Status TryModelBytes(const std::string& bytes);

}  // namespace swiftkv
