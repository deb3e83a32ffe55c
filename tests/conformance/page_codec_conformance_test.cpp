// SPDX-License-Identifier: Apache-2.0
// Holds every page format of the table to the contract of include/swiftkv/page_codec.h.
//
// A new format is tested by its row alone; it adds its rounding to ErrorBound.
#include "swiftkv/page_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "formats/codec_table.h"
#include "formats/hadamard.h"

namespace swiftkv {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kGuardBytes = 256;
constexpr std::byte kGuard{0xA5};

// Returns how far a decoded value may lie from `value`, which is within the format's range. `row`
// is the largest magnitude of its row.
float ErrorBound(FormatId id, int head_dim, float value, float row) {
  // Rotation spreads a row's error over a block: no value is farther off than the block's error is
  // long. ARowLosesNoMoreThanTheFormatsShareOfItsLength is the sharper test.
  const auto block = static_cast<float>(RotationBlock(head_dim));
  const float length = 1.01F * row * std::sqrt(block);
  switch (id) {
    case FormatId::kF32:
      return 0;
    case FormatId::kF16:
      return std::max(std::ldexp(std::fabs(value), -11), std::ldexp(1.0F, -25));
    case FormatId::kBf16:
      return std::ldexp(std::fabs(value), -8);
    case FormatId::kFp8E4m3:  // half a unit of 3 bits of mantissa
      return std::ldexp(length, -4);
    case FormatId::kFp8E5m2:
      return std::ldexp(length, -3);
    case FormatId::kInt8:  // half a step, of which 127 reach the largest value
      return length * std::sqrt(block) / 254;
    case FormatId::kInt4:
      return length;
  }
  ADD_FAILURE() << "state the rounding of format number " << static_cast<int>(id);
  return 0;
}

// A plane in the middle of guard bytes, filled with 0xFF: NaN in the floating formats.
class TestPlane {
 public:
  TestPlane(const PageCodec& codec, Plane plane, int head_dim)
      : bytes_(codec.PlaneBytes(head_dim)),
        storage_(bytes_ + 2 * kGuardBytes + kPageAlignment, kGuard),
        scales_(kPageTokens, 0xFFFF) {
    auto address = reinterpret_cast<std::uintptr_t>(storage_.data() + kGuardBytes);
    address = (address + kPageAlignment - 1) / kPageAlignment * kPageAlignment;
    data_ = reinterpret_cast<std::byte*>(address);
    std::memset(data_, 0xFF, bytes_);
    std::uint16_t* const scales = codec.info().has_scales ? scales_.data() : nullptr;
    writable_ = {plane, head_dim, data_, scales};
    view_ = {plane, head_dim, data_, scales};
  }

  const MutablePlane& writable() const { return writable_; }
  const PlaneView& view() const { return view_; }

  bool GuardsAreIntact() const {
    const std::byte* const end = storage_.data() + storage_.size();
    return std::all_of(storage_.data(), static_cast<const std::byte*>(data_),
                       [](std::byte b) { return b == kGuard; }) &&
           std::all_of(static_cast<const std::byte*>(data_) + bytes_, end,
                       [](std::byte b) { return b == kGuard; });
  }

  std::vector<float> DecodeSlot(const PageCodec& codec, int slot) const {
    std::vector<float> row(static_cast<std::size_t>(view_.head_dim));
    codec.Decode(view_, {slot, 1}, row.data(), row.size());
    return row;
  }

 private:
  std::size_t bytes_;
  std::vector<std::byte> storage_;
  std::vector<std::uint16_t> scales_;
  std::byte* data_ = nullptr;
  MutablePlane writable_{};
  PlaneView view_{};
};

// Rows of normally distributed values with a few outliers, as keys have them.
std::vector<float> RandomRows(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> rows(count);
  for (float& value : rows) value = normal(random) * (random() % 37 == 0 ? 30.0F : 1.0F);
  return rows;
}

struct CodecCase {
  const PageCodec* codec;
  int head_dim;
  Plane plane;
};

std::vector<CodecCase> AllCases() {
  std::vector<CodecCase> cases;
  for (const PageCodec* codec : AllCodecs()) {
    for (int head_dim : {16, 32, 48, 64, 80, 96, 112, 128, 192, 256, 512}) {
      if (!codec->ServesHeadDim(head_dim)) continue;
      cases.push_back({codec, head_dim, Plane::kKey});
      cases.push_back({codec, head_dim, Plane::kValue});
    }
  }
  return cases;
}

std::string CaseName(const testing::TestParamInfo<CodecCase>& info) {
  return std::string(info.param.codec->info().name) +
         (info.param.plane == Plane::kKey ? "_key_" : "_value_") +
         std::to_string(info.param.head_dim);
}

class PageCodecConformanceTest : public testing::TestWithParam<CodecCase> {
 protected:
  const PageCodec& codec() const { return *GetParam().codec; }
  std::size_t dim() const { return static_cast<std::size_t>(GetParam().head_dim); }
  TestPlane NewPlane() const { return {codec(), GetParam().plane, GetParam().head_dim}; }

  void ExpectClose(const float* row, const std::vector<float>& decoded) const {
    float largest = 0;
    for (std::size_t c = 0; c < dim(); ++c) largest = std::max(largest, std::fabs(row[c]));
    for (std::size_t c = 0; c < dim(); ++c) {
      ASSERT_LE(std::fabs(decoded[c] - row[c]),
                ErrorBound(codec().info().id, GetParam().head_dim, row[c], largest))
          << "channel " << c << " of value " << row[c];
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Formats, PageCodecConformanceTest, testing::ValuesIn(AllCases()),
                         CaseName);

TEST_P(PageCodecConformanceTest, PlanesAreWholeLinesAndHoldTheBitsThatTheTableNames) {
  const std::size_t bytes = codec().PlaneBytes(GetParam().head_dim);
  EXPECT_EQ(bytes % kPageAlignment, 0U);
  EXPECT_EQ(static_cast<double>(bytes) * 8,
            codec().info().bits_per_value * static_cast<double>(dim()) * kPageTokens);
}

TEST_P(PageCodecConformanceTest, AFullPageComesBackWithinTheFormatsRounding) {
  TestPlane plane = NewPlane();
  const std::size_t stride = dim() + 24;
  const std::vector<float> rows = RandomRows(stride * kPageTokens, 1);
  codec().Encode(plane.writable(), {0, kPageTokens}, rows.data(), stride);
  std::vector<float> decoded(stride * kPageTokens, -7.0F);
  codec().Decode(plane.view(), {0, kPageTokens}, decoded.data(), stride);
  for (std::size_t t = 0; t < kPageTokens; ++t) {
    const float* const row = decoded.data() + t * stride;
    ExpectClose(rows.data() + t * stride, {row, row + dim()});
    for (std::size_t c = dim(); c < stride; ++c) ASSERT_EQ(row[c], -7.0F) << "past the row";
  }
  EXPECT_TRUE(plane.GuardsAreIntact());
}

TEST_P(PageCodecConformanceTest, ARowLosesNoMoreThanTheFormatsShareOfItsLength) {
  // The root of the mean square error over that of the row, for rows with outliers.
  const std::map<FormatId, double> shares = {{FormatId::kF32, 0},       {FormatId::kF16, 3e-4},
                                             {FormatId::kBf16, 2.4e-3}, {FormatId::kFp8E4m3, .03},
                                             {FormatId::kFp8E5m2, .06}, {FormatId::kInt8, .012},
                                             {FormatId::kInt4, .13}};
  TestPlane plane = NewPlane();
  const std::vector<float> rows = RandomRows(dim() * kPageTokens, 6);
  std::vector<float> decoded(rows.size());
  codec().Encode(plane.writable(), {0, kPageTokens}, rows.data(), dim());
  codec().Decode(plane.view(), {0, kPageTokens}, decoded.data(), dim());
  double error = 0;
  double length = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    error += std::pow(static_cast<double>(decoded[i]) - rows[i], 2);
    length += std::pow(static_cast<double>(rows[i]), 2);
  }
  EXPECT_LE(std::sqrt(error / length), shares.at(codec().info().id));
}

TEST_P(PageCodecConformanceTest, WhatWasDecodedIsStoredAgainWithoutAChange) {
  // A fitted scale and codes of a rotation that rounds may settle elsewhere.
  if (codec().info().rotated) return;
  TestPlane plane = NewPlane();
  const std::vector<float> rows = RandomRows(dim() * kPageTokens, 2);
  std::vector<float> once(rows.size());
  std::vector<float> twice(rows.size());
  codec().Encode(plane.writable(), {0, kPageTokens}, rows.data(), dim());
  codec().Decode(plane.view(), {0, kPageTokens}, once.data(), dim());
  codec().Encode(plane.writable(), {0, kPageTokens}, once.data(), dim());
  codec().Decode(plane.view(), {0, kPageTokens}, twice.data(), dim());
  EXPECT_EQ(once, twice);
}

TEST_P(PageCodecConformanceTest, SlotsWrittenInAnyOrderNeverChangeTheirNeighbours) {
  TestPlane plane = NewPlane();
  std::mt19937 random(3);
  std::vector<int> order(kPageTokens);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<std::vector<float>> expected(kPageTokens);
  for (int slot : order) {
    const std::vector<float> row = RandomRows(dim(), 100U + static_cast<unsigned>(slot));
    codec().Encode(plane.writable(), {slot, 1}, row.data(), row.size());
    expected[static_cast<std::size_t>(slot)] = plane.DecodeSlot(codec(), slot);
    ExpectClose(row.data(), expected[static_cast<std::size_t>(slot)]);
    for (int other = 0; other < kPageTokens; ++other) {
      const auto& before = expected[static_cast<std::size_t>(other)];
      if (before.empty()) continue;
      ASSERT_EQ(plane.DecodeSlot(codec(), other), before) << other;
    }
  }
  EXPECT_TRUE(plane.GuardsAreIntact());
}

TEST_P(PageCodecConformanceTest, EveryRangeOfSlotsEqualsTheSameRowsOneByOne) {
  const std::vector<float> rows = RandomRows(dim() * kPageTokens, 4);
  for (int first = 0; first < kPageTokens; ++first) {
    for (int count = 0; first + count <= kPageTokens; ++count) {
      TestPlane together = NewPlane();
      TestPlane apart = NewPlane();
      codec().Encode(together.writable(), {first, count}, rows.data(), dim());
      for (int t = 0; t < count; ++t) {
        codec().Encode(apart.writable(), {first + t, 1},
                       rows.data() + static_cast<std::size_t>(t) * dim(), dim());
      }
      ASSERT_EQ(std::memcmp(together.view().data, apart.view().data,
                            codec().PlaneBytes(GetParam().head_dim)),
                0)
          << first << " " << count;
    }
  }
}

TEST_P(PageCodecConformanceTest, WhateverIsStoredDecodesToFiniteNumbers) {
  const float kHuge = std::numeric_limits<float>::max();
  const float kTiny = std::numeric_limits<float>::denorm_min();
  const std::vector<float> hard = {kNan,     kInf,     -kInf,    kHuge,     -kHuge, kTiny, -kTiny,
                                   65504.0F, 65519.0F, 65520.0F, -70000.0F, 0.0F,   -0.0F};
  TestPlane plane = NewPlane();
  std::mt19937 random(5);
  for (int slot = 0; slot < kPageTokens; ++slot) {
    std::vector<float> row = RandomRows(dim(), 200U + static_cast<unsigned>(slot));
    for (float& value : row) {
      if (slot == 0 || random() % 4 == 0) value = hard[random() % hard.size()];
    }
    codec().Encode(plane.writable(), {slot, 1}, row.data(), row.size());
    const std::vector<float> decoded = plane.DecodeSlot(codec(), slot);
    for (std::size_t c = 0; c < dim(); ++c) {
      ASSERT_TRUE(std::isfinite(decoded[c])) << row[c];
      if (codec().info().rotated) continue;  // every value depends on the whole row
      if (std::isnan(row[c])) {
        ASSERT_EQ(decoded[c], 0.0F);
      }
      if (decoded[c] != 0) {
        ASSERT_EQ(std::signbit(decoded[c]), std::signbit(row[c])) << row[c];
      }
    }
  }
}

TEST(PageCodecTableTest, NamesAndNumbersAreUniqueAndFound) {
  std::set<std::string> names;
  std::set<int> numbers;
  for (const PageCodec* codec : AllCodecs()) {
    names.insert(codec->info().name);
    numbers.insert(static_cast<int>(codec->info().id));
    const auto found = FindCodec(codec->info().name);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, codec);
  }
  EXPECT_EQ(names.size(), AllCodecs().size());
  EXPECT_EQ(numbers.size(), AllCodecs().size());
}

}  // namespace
}  // namespace swiftkv
