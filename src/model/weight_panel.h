// SPDX-License-Identifier: Apache-2.0
// Unpacks panels of weights of any ggml type into floats, inputs outermost.
#pragma once

#include <cstdint>

#include "ggml.h"

namespace swiftkv {

inline constexpr std::int64_t kPanelLanes = 16;  // outputs that are unpacked together

// Outputs [first, first + count) of a matrix of rows of `inputs` values.
struct WeightRows {
  ggml_type type = GGML_TYPE_F32;
  const void* weights = nullptr;
  std::int64_t inputs = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// Writes [inputs, count].
void UnpackPanel(const WeightRows& rows, float* panel);
// The same, rounded to bf16.
void UnpackPanelBf16(const WeightRows& rows, std::uint16_t* panel);

}  // namespace swiftkv
