// SPDX-License-Identifier: Apache-2.0
// Checks that every instruction set quantises rows to the same codes as an obvious search.
#include "formats/row_quantization.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "base/fp8.h"

namespace swiftkv {
namespace {

// Every exponent and sign with random fractions: NaN, inf, subnormals and overflow included; then
// numbers on and beside every border of a code.
std::vector<float> AllKindsOfFloats() {
  std::mt19937 random(7);
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < 512; ++upper) {
    for (std::uint32_t i = 0; i < 64; ++i) {
      const std::uint32_t fraction = i < 16 ? i << 19 : random() & 0x7FFFFFU;
      values.push_back(std::bit_cast<float>((upper << 23) | fraction));
    }
  }
  for (int i = -1040; i < 1040; ++i) {
    const float border = static_cast<float>(i) / 8;
    for (const float beside : {-INFINITY, border, INFINITY}) {
      values.push_back(std::nextafter(border, beside));
    }
  }
  values.resize(values.size() / 16 * 16);
  return values;
}

template <class Format>
std::uint8_t NearestFp8(float value) {
  if (std::isnan(value)) return 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  std::uint8_t best = 0;
  constexpr std::uint32_t kSmallest = 1U << Format::kMantissaBits;  // normal
  for (std::uint32_t code = kSmallest; code <= Format::kLargestCode; ++code) {
    const double error = std::fabs(Format::ToFloat(static_cast<std::uint8_t>(code)) - magnitude);
    const double best_error = std::fabs(Format::ToFloat(best) - magnitude);
    if (error < best_error || (error == best_error && best != 0 && code % 2 == 0)) {
      best = static_cast<std::uint8_t>(code);
    }
  }
  return static_cast<std::uint8_t>(best | (std::signbit(value) ? 0x80U : 0U));
}

std::uint8_t NearestInt8(float value) {
  const double cut = std::fmin(std::fmax(static_cast<double>(value), -127.0), 127.0);
  return static_cast<std::uint8_t>(static_cast<int>(std::nearbyint(cut)) + 128);
}

std::uint8_t NearestInt4(float value) {
  const double magnitude = std::fabs(static_cast<double>(value));
  std::uint8_t best = 8;
  for (std::uint8_t code = 9; code < 16; ++code) {
    if (std::fabs(kInt4Levels[code] - magnitude) <= std::fabs(kInt4Levels[best] - magnitude)) {
      best = code;
    }
  }
  return std::signbit(value) ? static_cast<std::uint8_t>(15 - best) : best;
}

TEST(RowQuantizationTest, EveryInstructionSetGivesTheNearestCode) {
  const std::vector<float> raw = AllKindsOfFloats();
  for (Isa isa : AllIsas()) {
    if (!Runs(HostCpu(), isa)) continue;
    const RowQuantization& quantization = RowQuantizationFor(isa);
    std::vector<float> values(raw.size());
    quantization.sanitize(raw.data(), values.data(), raw.size());
    const auto codes = [&](auto quantize) {
      std::vector<std::uint8_t> result(values.size());
      quantize(values.data(), 1.0F, result.data(), result.size());
      return result;
    };
    const auto e4m3 = codes(quantization.to_e4m3);
    const auto e5m2 = codes(quantization.to_e5m2);
    const auto int8 = codes(quantization.to_int8);
    const auto int4 = codes(quantization.to_int4);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(e4m3[i], NearestFp8<Fp8E4m3>(values[i])) << IsaName(isa) << " " << values[i];
      ASSERT_EQ(e5m2[i], NearestFp8<Fp8E5m2>(values[i])) << IsaName(isa) << " " << values[i];
      ASSERT_EQ(int8[i], NearestInt8(values[i])) << IsaName(isa) << " " << values[i];
      // On a far border infinity-sized magnitudes tie in double; the largest code is right there.
      if (std::fabs(values[i]) > 1e15F) {
        ASSERT_EQ(int4[i], values[i] < 0 ? 0 : 15);
      } else {
        ASSERT_EQ(int4[i], NearestInt4(values[i])) << IsaName(isa) << " " << values[i];
      }
    }
  }
}

TEST(RowQuantizationTest, SanitisedRowsAreFiniteAndTheirLargestMagnitudeIsFound) {
  std::vector<float> raw = AllKindsOfFloats();
  for (Isa isa : AllIsas()) {
    if (!Runs(HostCpu(), isa)) continue;
    const RowQuantization& quantization = RowQuantizationFor(isa);
    for (std::size_t start = 0; start + 64 <= raw.size(); start += 64) {
      float row[64];
      quantization.sanitize(raw.data() + start, row, 64);
      float max = 0;
      for (std::size_t i = 0; i < 64; ++i) {
        const float value = raw[start + i];
        const float expected =
            std::isnan(value) ? 0.0F : std::fmin(std::fmax(value, -0x1p60F), 0x1p60F);
        ASSERT_EQ(row[i], expected);
        max = std::fmax(max, std::fabs(expected));
      }
      ASSERT_EQ(quantization.max_abs(row, 64), max) << IsaName(isa);
    }
  }
}

TEST(RowQuantizationTest, SumsFitsAndRotationsAreTheSameInEveryInstructionSet) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const std::size_t count : {16U, 48U, 64U, 80U, 128U, 256U}) {
    std::vector<float> row(count);
    for (float& value : row) value = normal(random) * 7;
    const std::size_t block = count & (~count + 1);
    const RowQuantization& portable = RowQuantizationFor(Isa::kPortable);
    std::vector<std::uint8_t> codes(count);
    portable.to_int4(row.data(), 5.0F, codes.data(), count);
    std::vector<float> rotated = row;
    portable.rotate(rotated.data(), count, block);
    double product = 0;
    double square = 0;
    double length = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double level = kInt4Levels[codes[i]];
      product += row[i] * level;
      square += level * level;
      length += static_cast<double>(row[i]) * row[i];
    }
    for (Isa isa : AllIsas()) {
      if (!Runs(HostCpu(), isa)) continue;
      const RowQuantization& quantization = RowQuantizationFor(isa);
      EXPECT_NEAR(quantization.sum_of_squares(row.data(), count), length, 1e-9 * length);
      EXPECT_EQ(quantization.sum_of_squares(row.data(), count),
                portable.sum_of_squares(row.data(), count));
      EXPECT_NEAR(quantization.fit_int4(row.data(), codes.data(), count), product / square, 1e-6);
      EXPECT_EQ(quantization.fit_int4(row.data(), codes.data(), count),
                portable.fit_int4(row.data(), codes.data(), count));
      std::vector<std::uint8_t> own_codes(count);
      quantization.to_int4(row.data(), 5.0F, own_codes.data(), count);
      EXPECT_EQ(own_codes, codes) << IsaName(isa) << " " << count;
      std::vector<float> own = row;
      quantization.rotate(own.data(), count, block);
      EXPECT_EQ(own, rotated) << IsaName(isa) << " " << count;
    }
  }
}

TEST(RowQuantizationTest, The4BitLevelsAreTheLloydMaxLevelsOfANormalDistribution) {
  constexpr double kPublished[8] = {.12840,  .38805,  .65676,  .94234,
                                    1.25623, 1.61805, 2.06902, 2.73259};
  for (int k = 0; k < 8; ++k) {
    EXPECT_NEAR(kInt4Levels[8 + k] * kPublished[7] / 127, kPublished[k], .5 * kPublished[7] / 127);
    EXPECT_EQ(kInt4Levels[7 - k], -kInt4Levels[8 + k]);
    if (k == 0) continue;
    EXPECT_EQ(kInt4Borders[k - 1], (kInt4Levels[7 + k] + kInt4Levels[8 + k]) / 2.0F);
  }
}

}  // namespace
}  // namespace swiftkv
