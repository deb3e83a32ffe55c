// SPDX-License-Identifier: Apache-2.0
// Makes the seeds of the GGUF fuzzer: the smallest honest model of each family and vocabulary.
#pragma once

#include <vector>

#include "support/tiny_model.h"

namespace swiftkv {

// Each becomes tests/fuzz/corpus/gguf/<name>.
std::vector<TinyModel> GgufFuzzSeeds();

}  // namespace swiftkv
