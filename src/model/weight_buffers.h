// SPDX-License-Identifier: Apache-2.0
// Chooses for a weight the layout in memory that ggml computes fastest with.
#pragma once

#include <vector>

#include "ggml-backend.h"
#include "ggml.h"
#include "model/gguf_file.h"

namespace swiftkv {

// Lists ggml's extra buffer types of the CPU, fastest first.
std::vector<ggml_backend_buffer_type_t> ExtraBufferTypes();

// Returns whether a matrix of this type and shape can be multiplied when it lies in a buffer of
// `buffer_type`.
bool CanMultiplyIn(ggml_backend_buffer_type_t buffer_type, const GgufTensor& tensor);

}  // namespace swiftkv
