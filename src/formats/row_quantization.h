// SPDX-License-Identifier: Apache-2.0
// Quantises rows of floats to 8 and 4 bits and back, with the fastest instruction set of the
// machine.
//
// All functions are pure and safe from any thread. Results are those of docs/page_format.md, bit
// for bit the same in every instruction set: sums are of products that are exact in double, in
// eight lanes, lane i of the numbers i, i + 8, ...; halves of the lanes are then added until one is
// left. `count` is a multiple of 16; rows do not overlap, any alignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_features.h"

namespace swiftkv {

// Inputs beyond this are cut to it, so that no sum or square of a row overflows; every format's
// scale saturates far below.
inline constexpr float kLargestInput = 0x1p60F;

// The levels of the 4-bit format by code 0 to 15, in units of the scale: the 16 levels that lose
// least of a normal distribution (Lloyd-Max), largest at 127.
inline constexpr std::int8_t kInt4Levels[16] = {-127, -96, -75, -58, -44, -31, -18, -6,
                                                6,    18,  31,  44,  58,  75,  96,  127};
// Where the codes 8 + k and 9 + k meet, k from 0 to 6: half way between two levels.
inline constexpr float kInt4Borders[7] = {12.0F, 24.5F, 37.5F, 51.0F, 66.5F, 85.5F, 111.5F};
// The largest level in standard deviations.
inline constexpr float kInt4Largest = 2.73259F;

struct RowQuantization {
  // Copies a row with NaN as 0 and everything within +-kLargestInput.
  void (*sanitize)(const float* from, float* to, std::size_t count);
  float (*max_abs)(const float* row, std::size_t count);
  // Codes of row[i] * factor.
  void (*to_e4m3)(const float* row, float factor, std::uint8_t* codes, std::size_t count);
  void (*to_e5m2)(const float* row, float factor, std::uint8_t* codes, std::size_t count);
  // round(row[i] * factor) within +-127, ties to even, plus 128.
  void (*to_int8)(const float* row, float factor, std::uint8_t* codes, std::size_t count);
  // The code of the nearest level of kInt4Levels; on a border the one farther from 0.
  void (*to_int4)(const float* row, float factor, std::uint8_t* codes, std::size_t count);
  double (*sum_of_squares)(const float* row, std::size_t count);
  // Returns the scale s that makes the sum of (row[i] - s level(codes[i]))^2 least.
  float (*fit_int4)(const float* row, const std::uint8_t* codes, std::size_t count);
  // Rotates a row as RotateRow (formats/hadamard.h) does, in blocks of `block` numbers, a power of
  // two that is at least 16.
  void (*rotate)(float* row, std::size_t count, std::size_t block);
};

// Returns the functions for `isa`, which the machine must run.
const RowQuantization& RowQuantizationFor(Isa isa);

// Returns the functions for this machine.
const RowQuantization& HostRowQuantization();

}  // namespace swiftkv
