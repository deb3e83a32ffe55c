// SPDX-License-Identifier: Apache-2.0
// Declares the AVX2 forms of the row quantisations (row_quantization.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace swiftkv::avx2 {

void SanitizeRow(const float* from, float* to, std::size_t count);
float MaxAbsRow(const float* row, std::size_t count);
void RowToE4m3(const float* row, float factor, std::uint8_t* codes, std::size_t count);
void RowToE5m2(const float* row, float factor, std::uint8_t* codes, std::size_t count);
void RowToInt8(const float* row, float factor, std::uint8_t* codes, std::size_t count);
void RowToInt4(const float* row, float factor, std::uint8_t* codes, std::size_t count);
double SumOfSquares(const float* row, std::size_t count);
float FitInt4(const float* row, const std::uint8_t* codes, std::size_t count);
void Rotate(float* row, std::size_t count, std::size_t block);

}  // namespace swiftkv::avx2
