// SPDX-License-Identifier: Apache-2.0
// Checks that a file holds exactly the weights that a decoder computes with.
#pragma once

#include <span>

#include "model/decoder_weights.h"
#include "model/gguf_file.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Reads names, shapes and types only. Errors, each naming the tensor: DataLoss for one that is
// missing or has another shape; Unsupported for one that no slot wants, or of a type that ggml does
// not compute with.
Status CheckWeights(const GgufFile& file, std::span<const WeightSlot> slots);

}  // namespace swiftkv
