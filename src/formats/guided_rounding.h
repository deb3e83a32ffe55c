// SPDX-License-Identifier: Apache-2.0
// Rounds rows to codes under a guide, channel by channel (swiftkv/rounding_guide.h).
//
// Pure functions, safe from any thread. A row's codes depend on nothing but the row, its factor and
// the guide: not on the rows beside it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "swiftkv/rounding_guide.h"

namespace swiftkv {

struct GuidedRows {
  const RoundingGuide* guide = nullptr;  // of `dim` channels
  const float* rows = nullptr;           // [count, row_stride], as they are stored, finite
  std::size_t row_stride = 0;
  std::size_t dim = 0;             // at most kMostChannels
  std::size_t count = 0;           // at most 16
  const float* factors = nullptr;  // [count]: codes are those of row times factor
  std::uint8_t* codes = nullptr;   // [count, dim], written
  float* costs = nullptr;          // [count], written: squared error of scores, in units of codes
};

using RoundGuided = void (*)(const GuidedRows& rows);

void RoundGuidedToInt8(const GuidedRows& rows);  // codes with the bias of 128
void RoundGuidedToInt4(const GuidedRows& rows);
void RoundGuidedToE4m3(const GuidedRows& rows);
void RoundGuidedToE5m2(const GuidedRows& rows);

}  // namespace swiftkv
