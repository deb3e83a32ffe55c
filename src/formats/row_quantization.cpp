// SPDX-License-Identifier: Apache-2.0
// Quantises rows with the compiler's baseline and chooses between the instruction sets.
#include "formats/row_quantization.h"

#include <cmath>

#include "base/fp8.h"
#include "formats/row_quantization_avx2.h"

namespace swiftkv {
namespace {

void SanitizeRow(const float* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float value = from[i] == from[i] ? from[i] : 0.0F;
    to[i] = std::fmin(std::fmax(value, -kLargestInput), kLargestInput);
  }
}

float MaxAbsRow(const float* row, std::size_t count) {
  float max = 0;
  for (std::size_t i = 0; i < count; ++i) max = std::fmax(max, std::fabs(row[i]));
  return max;
}

void RowToE4m3(const float* row, float factor, std::uint8_t* codes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) codes[i] = Fp8E4m3::FromFloat(row[i] * factor);
}

void RowToE5m2(const float* row, float factor, std::uint8_t* codes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) codes[i] = Fp8E5m2::FromFloat(row[i] * factor);
}

void RowToInt8(const float* row, float factor, std::uint8_t* codes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float scaled = std::fmin(std::fmax(row[i] * factor, -127.0F), 127.0F);
    codes[i] = static_cast<std::uint8_t>(static_cast<int>(std::nearbyint(scaled)) + 128);
  }
}

void RowToInt4(const float* row, float factor, std::uint8_t* codes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float scaled = row[i] * factor;
    int steps = 0;
    for (const float border : kInt4Borders) steps += std::fabs(scaled) >= border ? 1 : 0;
    codes[i] = static_cast<std::uint8_t>(std::signbit(scaled) ? 7 - steps : 8 + steps);
  }
}

constexpr RowQuantization kPortable = {SanitizeRow, MaxAbsRow, RowToE4m3,
                                       RowToE5m2,   RowToInt8, RowToInt4};

#if defined(__x86_64__)
constexpr RowQuantization kAvx2 = {avx2::SanitizeRow, avx2::MaxAbsRow, avx2::RowToE4m3,
                                   avx2::RowToE5m2,   avx2::RowToInt8, avx2::RowToInt4};
#endif

}  // namespace

const RowQuantization& RowQuantizationFor([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx2) return kAvx2;
#endif
  return kPortable;
}

const RowQuantization& HostRowQuantization() {
  static const RowQuantization& quantization = RowQuantizationFor(BestIsa(HostCpu()));
  return quantization;
}

}  // namespace swiftkv
