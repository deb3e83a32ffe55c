// SPDX-License-Identifier: Apache-2.0
// Converts single numbers between float and the 16-bit formats f16 (IEEE binary16) and bf16.
//
// Rounding is to nearest, ties to even; subnormals are kept. The plain conversions follow IEEE 754:
// overflow gives inf and NaN stays NaN. The saturating ones are what a cache stores: overflow gives
// the largest finite number of that sign and NaN gives 0. Every function is always inlined, so that
// files compiled for one instruction set leave no copy for others to link to.
#pragma once

#include <bit>
#include <cstdint>

namespace swiftkv {

inline constexpr float kMaxHalf = 65504.0F;
inline constexpr float kMaxBf16 = 0x1.FEp127F;

// Returns the float that the f16 bits stand for; exact.
[[gnu::always_inline]] inline float HalfToFloat(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t magnitude = half & 0x7FFFU;
  if (magnitude >= 0x7C00U) {  // inf and NaN
    return std::bit_cast<float>(sign | 0x7F800000U | ((magnitude & 0x3FFU) << 13));
  }
  // Read as a float whose exponent is 112 too small, then scale: exact, subnormals included.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
}

// Returns the f16 bits nearest to `value`.
[[gnu::always_inline]] inline std::uint16_t FloatToHalf(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);   // NaN
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // >= 65520
  if (magnitude < 0x38800000U) {  // below the smallest normal, 2^-14
    // Adding 1/2 lets the float adder round at the last place of an f16 subnormal, 2^-24.
    const float rounded = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(rounded) - 0x3F000000U));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xFFFU + odd) >> 13));
}

// Returns the f16 bits nearest to `value` among the finite ones; 0 for NaN.
[[gnu::always_inline]] inline std::uint16_t FloatToHalfSaturated(float value) {
  if (value != value) return 0;
  if (value > kMaxHalf) return 0x7BFFU;
  if (value < -kMaxHalf) return 0xFBFFU;
  return FloatToHalf(value);
}

// Returns the float that the bf16 bits stand for; exact.
[[gnu::always_inline]] inline float Bf16ToFloat(std::uint16_t bf16) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bf16) << 16);
}

// Returns the bf16 bits nearest to `value`.
[[gnu::always_inline]] inline std::uint16_t FloatToBf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {  // NaN; set a bit that survives the cut
    return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  }
  const std::uint32_t odd = (bits >> 16) & 1U;
  return static_cast<std::uint16_t>((bits + 0x7FFFU + odd) >> 16);
}

// Returns the bf16 bits nearest to `value` among the finite ones; 0 for NaN.
[[gnu::always_inline]] inline std::uint16_t FloatToBf16Saturated(float value) {
  if (value != value) return 0;
  if (value > kMaxBf16) return 0x7F7FU;
  if (value < -kMaxBf16) return 0xFF7FU;
  return FloatToBf16(value);
}

}  // namespace swiftkv
