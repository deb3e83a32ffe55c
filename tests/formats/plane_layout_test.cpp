// SPDX-License-Identifier: Apache-2.0
// Checks the bytes of every format against the formulas of docs/page_format.md, element by element.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

#include "base/half.h"
#include "formats/codec_table.h"
#include "swiftkv/page_codec.h"

namespace swiftkv {
namespace {

// Where the document puts value (slot t, channel c) of a plane with d channels, in elements.
struct DocumentedLayout {
  const char* format;
  std::size_t element_bytes;
  std::size_t (*key_index)(std::size_t t, std::size_t c, std::size_t d);
  std::size_t (*value_index)(std::size_t t, std::size_t c, std::size_t d);
};

std::size_t ChannelMajor(std::size_t t, std::size_t c, std::size_t) { return c * 16 + t; }
std::size_t TokenMajor(std::size_t t, std::size_t c, std::size_t d) { return t * d + c; }
std::size_t ChannelPairs(std::size_t t, std::size_t c, std::size_t) {
  return ((c / 2) * 16 + t) * 2 + c % 2;
}
std::size_t TokenPairs(std::size_t t, std::size_t c, std::size_t d) {
  return ((t / 2) * d + c) * 2 + t % 2;
}

constexpr DocumentedLayout kLayouts[] = {
    {"f32", 4, ChannelMajor, TokenMajor},
    {"f16", 2, ChannelMajor, TokenMajor},
    {"bf16", 2, ChannelPairs, TokenPairs},
};

float ReadElement(const DocumentedLayout& layout, const std::vector<std::byte>& plane,
                  std::size_t index) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, plane.data() + index * layout.element_bytes, layout.element_bytes);
  if (layout.element_bytes == 4) return std::bit_cast<float>(bits);
  const auto narrow = static_cast<std::uint16_t>(bits);
  return std::strcmp(layout.format, "f16") == 0 ? HalfToFloat(narrow) : Bf16ToFloat(narrow);
}

TEST(PlaneLayoutTest, EveryValueLiesWhereTheDocumentSays) {
  for (const DocumentedLayout& layout : kLayouts) {
    const PageCodec& codec = **FindCodec(layout.format);
    for (int head_dim : {16, 80, 128}) {
      const auto d = static_cast<std::size_t>(head_dim);
      // Small integers, all different where 8 bits of mantissa can tell them apart.
      std::vector<float> rows(16 * d);
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>((i * 7 + 1) % 251);
      for (Plane kind : {Plane::kKey, Plane::kValue}) {
        std::vector<std::byte> plane(codec.PlaneBytes(head_dim));
        codec.Encode({kind, head_dim, plane.data(), nullptr}, {0, 16}, rows.data(), d);
        const auto index = kind == Plane::kKey ? layout.key_index : layout.value_index;
        for (std::size_t t = 0; t < 16; ++t) {
          for (std::size_t c = 0; c < d; ++c) {
            ASSERT_EQ(ReadElement(layout, plane, index(t, c, d)), rows[t * d + c])
                << layout.format << " t=" << t << " c=" << c;
          }
        }
      }
    }
  }
}

TEST(PlaneLayoutTest, EveryFormatOfTheTableIsStatedInTheDocument) {
  std::ifstream file(SWIFTKV_SOURCE_DIR "/docs/page_format.md");
  std::stringstream document;
  document << file.rdbuf();
  for (const PageCodec* codec : AllCodecs()) {
    const std::string row = "| " + std::to_string(static_cast<int>(codec->info().id)) + " | `" +
                            codec->info().name + "` | ";
    EXPECT_NE(document.str().find(row), std::string::npos) << row;
  }
}

TEST(CodecTableTest, AnUnknownNameIsAnsweredWithTheListOfNames) {
  const auto codec = FindCodec("int3");
  ASSERT_FALSE(codec.ok());
  EXPECT_EQ(codec.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(codec.status().message(), "a page format is one of f16, bf16, f32, not: int3");
}

TEST(CodecTableTest, HeadSizesThatAreNoMultipleOf16AreNotServed) {
  for (const PageCodec* codec : AllCodecs()) {
    EXPECT_TRUE(codec->ServesHeadDim(512));
    for (int head_dim : {-16, 0, 1, 8, 24, 100, 1 << 20}) {
      EXPECT_FALSE(codec->ServesHeadDim(head_dim)) << head_dim;
    }
  }
}

}  // namespace
}  // namespace swiftkv
