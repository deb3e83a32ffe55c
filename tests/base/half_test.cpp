// SPDX-License-Identifier: Apache-2.0
// Checks the 16-bit conversions against arithmetic over all 65,536 values.
#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace swiftkv {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// What IEEE 754 says, written with ldexp instead of bit tricks.
float SlowHalfToFloat(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  const float sign = (half & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return fraction != 0 ? kNan : sign * kInf;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

TEST(HalfTest, EveryHalfBecomesTheFloatThatIeeeNames) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float expected = SlowHalfToFloat(half);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(HalfToFloat(half))) << bits;
    } else {
      EXPECT_EQ(HalfToFloat(half), expected) << bits;
      EXPECT_EQ(std::signbit(HalfToFloat(half)), std::signbit(expected)) << bits;
      EXPECT_EQ(FloatToHalf(expected), half) << bits;
    }
  }
}

TEST(HalfTest, ValuesBetweenTwoHalvesGoToTheNearestAndTiesToEven) {
  for (int bits = 0; bits < 0x7BFF; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const float middle = (HalfToFloat(low) + HalfToFloat(high)) / 2;  // exact in float
    const std::uint16_t even = bits % 2 == 0 ? low : high;
    ASSERT_EQ(FloatToHalf(middle), even) << bits;
    ASSERT_EQ(FloatToHalf(-middle), even | 0x8000) << bits;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 0.0F)), low) << bits;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, kInf)), high) << bits;
  }
}

TEST(HalfTest, OverflowGivesInfinityAndTheSaturatingFormTheLargestFinite) {
  EXPECT_EQ(FloatToHalf(65519.996F), 0x7BFF);
  EXPECT_EQ(FloatToHalf(65520.0F), 0x7C00);
  EXPECT_EQ(FloatToHalf(-kInf), 0xFC00);
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(kNan))));
  EXPECT_EQ(FloatToHalfSaturated(65520.0F), 0x7BFF);
  EXPECT_EQ(FloatToHalfSaturated(-1e30F), 0xFBFF);
  EXPECT_EQ(FloatToHalfSaturated(kInf), 0x7BFF);
  EXPECT_EQ(FloatToHalfSaturated(-kInf), 0xFBFF);
  EXPECT_EQ(FloatToHalfSaturated(kNan), 0);
  EXPECT_EQ(FloatToHalfSaturated(-2.5F), FloatToHalf(-2.5F));
}

TEST(Bf16Test, EveryFiniteValueComesBackAndTiesGoToEven) {
  for (int bits = 0; bits < 0x7F7F; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    ASSERT_EQ(FloatToBf16(Bf16ToFloat(low)), low);
    ASSERT_EQ(FloatToBf16(-Bf16ToFloat(low)), low | 0x8000);
    const auto middle = std::bit_cast<float>((static_cast<std::uint32_t>(bits) << 16) | 0x8000U);
    ASSERT_EQ(FloatToBf16(middle), bits % 2 == 0 ? low : high) << bits;
    ASSERT_EQ(FloatToBf16(std::nextafter(middle, 0.0F)), low) << bits;
    ASSERT_EQ(FloatToBf16(std::nextafter(middle, kInf)), high) << bits;
  }
}

TEST(Bf16Test, OverflowGivesInfinityAndTheSaturatingFormTheLargestFinite) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(FloatToBf16(largest), 0x7F80);
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(std::bit_cast<float>(0x7F800001U)))));
  EXPECT_EQ(FloatToBf16Saturated(largest), 0x7F7F);
  EXPECT_EQ(FloatToBf16Saturated(-kInf), 0xFF7F);
  EXPECT_EQ(FloatToBf16Saturated(kNan), 0);
  EXPECT_EQ(Bf16ToFloat(FloatToBf16Saturated(largest)), kMaxBf16);
}

}  // namespace
}  // namespace swiftkv
