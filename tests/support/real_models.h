// SPDX-License-Identifier: Apache-2.0
// Finds the real models that tests use; the set-up fetches them, and tests without them skip with
// its words.
#pragma once

#include <string>

#include "swiftkv/status.h"

namespace swiftkv {

enum class RealModel {
  kSmolLm2,  // SmolLM2-135M-Instruct, Q4_1: 30 layers, 9 query and 3 KV heads of 64
  kGemma3,   // Gemma 3 270M, Q4_K_M: 18 layers, window 512 on 15 of them, 1 KV head of 256
};

// Returns the path of the model's GGUF in the folder that $SWIFTKV_TEST_MODELS names. kNotFound,
// with what to run, where it is missing.
Result<std::string> RealModelFile(RealModel model);

}  // namespace swiftkv
