// SPDX-License-Identifier: Apache-2.0
// Multiplies quantised weights as bytes: rows in 8 bits with a scale for 32 values, as ggml takes
// them too, by kernels of our own for one row and for many.
#pragma once

#include <memory>

#include "model/linear_backend.h"

namespace swiftkv {

std::unique_ptr<LinearBackend> MakeByteLinear();

}  // namespace swiftkv
