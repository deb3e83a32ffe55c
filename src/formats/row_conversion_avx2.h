// SPDX-License-Identifier: Apache-2.0
// Declares the AVX2 and F16C forms of the row conversions (row_conversion.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace swiftkv::avx2 {

void FloatToHalfRow(const float* from, std::uint16_t* to, std::size_t count);
void HalfToFloatRow(const std::uint16_t* from, float* to, std::size_t count);
void FloatToBf16Row(const float* from, std::uint16_t* to, std::size_t count);
void Bf16ToFloatRow(const std::uint16_t* from, float* to, std::size_t count);

}  // namespace swiftkv::avx2
