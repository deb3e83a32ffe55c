// SPDX-License-Identifier: Apache-2.0
// Checks that every instruction set converts rows to the same bits as the scalar form.
#include "formats/row_conversion.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

#include "base/half.h"

namespace swiftkv {
namespace {

// Every exponent and sign with random fractions: NaN, inf, subnormals and overflow included.
std::vector<float> AllKindsOfFloats() {
  std::mt19937 random(7);
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < 512; ++upper) {
    for (int i = 0; i < 64; ++i) {
      std::uint32_t fraction = random() & 0x7FFFFFU;
      if (i < 8) fraction = static_cast<std::uint32_t>(i) << 12;  // near ties of f16
      if (i >= 8 && i < 16) fraction = static_cast<std::uint32_t>(i) << 15;
      values.push_back(std::bit_cast<float>((upper << 23) | fraction));
    }
  }
  return values;
}

TEST(RowConversionTest, EveryInstructionSetGivesTheBitsOfTheScalarForm) {
  const std::vector<float> values = AllKindsOfFloats();
  for (Isa isa : AllIsas()) {
    if (!Runs(HostCpu(), isa)) continue;
    const RowConversion& convert = RowConversionFor(isa);
    std::vector<std::uint16_t> half(values.size());
    std::vector<std::uint16_t> bf16(values.size());
    convert.float_to_half(values.data(), half.data(), values.size());
    convert.float_to_bf16(values.data(), bf16.data(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(half[i], FloatToHalfSaturated(values[i])) << IsaName(isa) << " " << values[i];
      ASSERT_EQ(bf16[i], FloatToBf16Saturated(values[i])) << IsaName(isa) << " " << values[i];
    }
    std::vector<float> back(values.size());
    convert.half_to_float(half.data(), back.data(), half.size());
    for (std::size_t i = 0; i < back.size(); ++i) ASSERT_EQ(back[i], HalfToFloat(half[i]));
    convert.bf16_to_float(bf16.data(), back.data(), bf16.size());
    for (std::size_t i = 0; i < back.size(); ++i) ASSERT_EQ(back[i], Bf16ToFloat(bf16[i]));
  }
}

TEST(RowConversionTest, EveryCountStopsAtItsEnd) {
  const std::vector<float> values(40, 1.5F);
  for (Isa isa : AllIsas()) {
    if (!Runs(HostCpu(), isa)) continue;
    for (std::size_t count = 0; count < values.size(); ++count) {
      std::vector<std::uint16_t> half(values.size(), 0x1234);
      RowConversionFor(isa).float_to_half(values.data(), half.data(), count);
      for (std::size_t i = 0; i < half.size(); ++i) {
        ASSERT_EQ(half[i], i < count ? 0x3E00 : 0x1234) << IsaName(isa) << " " << count;
      }
    }
  }
}

}  // namespace
}  // namespace swiftkv
