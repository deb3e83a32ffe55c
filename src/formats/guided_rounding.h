// SPDX-License-Identifier: Apache-2.0
// Rounds rows to codes under a guide, channel by channel (swiftkv/rounding_guide.h).
//
// Pure functions, safe from any thread. A row's codes depend on nothing but the row, its factor and
// the guide: not on the rows beside it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_features.h"
#include "swiftkv/rounding_guide.h"

namespace swiftkv {

struct GuidedRows {
  const RoundingGuide* guide = nullptr;  // of `dim` channels
  const float* rows = nullptr;           // [count, row_stride], as they are stored, finite
  std::size_t row_stride = 0;
  std::size_t dim = 0;  // a multiple of 8, at most kMostChannels
  std::size_t count = 0;
  std::size_t tries = 1;           // factors per row
  const float* factors = nullptr;  // [count, tries]: codes are those of row times factor
  std::uint8_t* codes = nullptr;   // [count, dim], written; null, and always so for several tries
  // [count, tries], written unless null: squared error of scores, in units of codes
  float* costs = nullptr;
};

using RoundGuided = void (*)(const GuidedRows& rows);

struct GuidedRounding {
  RoundGuided to_int8;  // codes with the bias of 128
  RoundGuided to_int4;
  RoundGuided to_e4m3;
  RoundGuided to_e5m2;
};

// Returns the functions for `isa`, which the machine must run. Results are the same, bit for bit,
// in every instruction set.
const GuidedRounding& GuidedRoundingFor(Isa isa);

// Returns the functions for this machine.
const GuidedRounding& HostGuidedRounding();

// The forms for AVX2 and AVX-512, in files of their own.
const GuidedRounding& Avx2GuidedRounding();
const GuidedRounding& Avx512GuidedRounding();

}  // namespace swiftkv
