// SPDX-License-Identifier: Apache-2.0
// Converts single numbers between float and the 8-bit floats E4M3 and E5M2 (OCP 8-bit Floating
// Point Specification, revision 1.0).
//
// Rounding is to nearest, ties to even, among 0 and the normal numbers: the bits of a subnormal,
// moved into those of a float, would be a subnormal there too, which processors take a slow path
// for. What is out of range becomes the largest finite number of its sign and NaN becomes 0, so no
// code is ever inf or NaN. Every function is always inlined, so that files compiled for one
// instruction set leave no copy for others to link to.
#pragma once

#include <bit>
#include <cstdint>

namespace swiftkv {

// kMantissa bits of mantissa, exponents with a bias of kBias, kLargest the code of the largest
// finite number.
template <int kMantissa, int kBias, std::uint32_t kLargest>
struct Fp8Format {
  static constexpr int kMantissaBits = kMantissa;
  static constexpr int kShift = 23 - kMantissa;  // from a float's mantissa to ours
  static constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << kMantissa;
  static constexpr std::uint32_t kSmallestNormal = static_cast<std::uint32_t>(128 - kBias) << 23;
  static constexpr std::uint32_t kLargestCode = kLargest;
  static constexpr std::uint32_t kHalfSmallest = kSmallestNormal - (1U << 23);
  static constexpr float kMax =
      std::bit_cast<float>(((kLargest + kRebias) << kShift));  // the largest finite number

  // Returns the code nearest to `value`.
  [[gnu::always_inline]] static std::uint8_t FromFloat(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 24) & 0x80U;
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) return 0;  // NaN
    std::uint32_t code = 0;
    if (magnitude < kSmallestNormal) {
      code = magnitude > kHalfSmallest ? 1U << kMantissa : 0U;
    } else {
      const std::uint32_t odd = (magnitude >> kShift) & 1U;
      const std::uint32_t below_half = (1U << (kShift - 1)) - 1;
      code = ((magnitude + below_half + odd) >> kShift) - kRebias;
      if (code > kLargest) code = kLargest;
    }
    return static_cast<std::uint8_t>(sign | code);
  }

  // Returns the float that a code stands for; exact, subnormals included. Codes of inf and NaN,
  // which FromFloat never gives, read as numbers beyond kMax.
  [[gnu::always_inline]] static float ToFloat(std::uint8_t code) {
    const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80U) << 24;
    // Read as a float whose exponent is too small, then scale.
    constexpr float kScale =
        std::bit_cast<float>(static_cast<std::uint32_t>(127 + 127 - kBias) << 23);
    const std::uint32_t magnitude = code & 0x7FU;
    const float scaled = std::bit_cast<float>(magnitude << kShift) * kScale;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
  }
};

using Fp8E4m3 = Fp8Format<3, 7, 0x7E>;   // to 448
using Fp8E5m2 = Fp8Format<2, 15, 0x7B>;  // to 57344

}  // namespace swiftkv
