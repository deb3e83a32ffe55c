// SPDX-License-Identifier: Apache-2.0
// Checks where planes and scales lie in a page, with a made-up format that has scales.
#include "swiftkv/page_layout.h"

#include <gtest/gtest.h>

#include "formats/codec_table.h"
#include "formats/page_format_table.h"

namespace swiftkv {
namespace {

// Says that it has scales; one byte a value.
class ScaledCodec final : public PageCodec {
 public:
  const FormatInfo& info() const override {
    static constexpr FormatInfo kInfo = {.name = "scaled",
                                         .description = "",
                                         .id = FormatId::kF32,
                                         .quality = Quality::kAny,
                                         .bits_per_value = 8,
                                         .has_scales = true,
                                         .rotated = false};
    return kInfo;
  }
  bool ServesHeadDim(int) const override { return true; }
  std::size_t PlaneBytes(int head_dim) const override {
    return static_cast<std::size_t>(head_dim) * kPageTokens;
  }
  void Encode(const MutablePlane&, SlotRange, const float*, std::size_t) const override {}
  void Decode(const PlaneView&, SlotRange, float*, std::size_t) const override {}
};

TEST(PageLayoutTest, PlanesOfAFormatWithoutScalesFollowEachOtherFromTheStart) {
  const PageCodec* const f16 = *FindCodec("f16");
  const PageFormat format = {f16, f16};
  const PageLayout layout = PageLayout::For(format, 64);
  EXPECT_FALSE(layout.has_scales);
  EXPECT_EQ(layout.key_offset, 0U);
  EXPECT_EQ(layout.value_offset, 2048U);
  EXPECT_EQ(layout.bytes, 4096U);
  alignas(64) std::byte page[4096];
  const PlaneView key = KeyPlane(format, layout, 64, page);
  const MutablePlane value = MutableValuePlane(format, layout, 64, page);
  EXPECT_EQ(key.data, page);
  EXPECT_EQ(key.plane, Plane::kKey);
  EXPECT_EQ(key.head_dim, 64);
  EXPECT_EQ(key.scales, nullptr);
  EXPECT_EQ(value.data, page + 2048);
  EXPECT_EQ(value.plane, Plane::kValue);
  EXPECT_EQ(value.scales, nullptr);
}

TEST(PageLayoutTest, ALineOfScalesComesFirstWhereEitherPlaneHasThem) {
  const ScaledCodec scaled;
  const PageFormat format = {*FindCodec("f16"), &scaled};
  const PageLayout layout = PageLayout::For(format, 32);
  EXPECT_TRUE(layout.has_scales);
  EXPECT_EQ(layout.key_offset, 64U);
  EXPECT_EQ(layout.value_offset, 64U + 1024U);
  EXPECT_EQ(layout.bytes, 64U + 1024U + 512U);
  alignas(64) std::byte page[1600];
  EXPECT_EQ(KeyPlane(format, layout, 32, page).scales, nullptr);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(ValuePlane(format, layout, 32, page).scales),
            page + 32);
  const PageFormat both = {&scaled, &scaled};
  EXPECT_EQ(reinterpret_cast<std::byte*>(
                MutableKeyPlane(both, PageLayout::For(both, 32), 32, page).scales),
            page);
}

TEST(PageLayoutTest, ANamedPairGoesByItsNameAndIsFoundByIt) {
  for (const NamedPageFormat& row : AllPageFormats()) {
    EXPECT_EQ(PageFormatName(row.format), row.name);
    EXPECT_EQ(FindPageFormat(row.name).value(), row.format);
  }
  EXPECT_EQ(PageFormatName({*FindCodec("int8"), *FindCodec("int4")}), "k8v4");
  EXPECT_EQ(FindPageFormat("int3").status().message(),
            "a page format is one of f16, bf16, fp8_e4m3, fp8_e5m2, int8, k8v4, int4, f32, not: "
            "int3");
}

TEST(PageLayoutTest, AMixedFormatIsNamedKeyFirstAndHasTheWorseGrade) {
  const PageCodec* const f16 = *FindCodec("f16");
  const PageCodec* const bf16 = *FindCodec("bf16");
  EXPECT_EQ(PageFormatName({f16, f16}), "f16");
  EXPECT_EQ(PageFormatName({f16, bf16}), "f16/bf16");
  EXPECT_EQ(PageFormatQuality({f16, f16}), Quality::kExact);
  EXPECT_EQ(PageFormatQuality({f16, bf16}), Quality::kNear);
  EXPECT_EQ(PageFormatQuality({bf16, f16}), Quality::kNear);
}

}  // namespace
}  // namespace swiftkv
