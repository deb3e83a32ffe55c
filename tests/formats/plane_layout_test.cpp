// SPDX-License-Identifier: Apache-2.0
// Checks the bytes of every format against the formulas of docs/page_format.md, element by element.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/fp8.h"
#include "base/half.h"
#include "formats/codec_table.h"
#include "formats/hadamard.h"
#include "formats/row_quantization.h"
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

std::size_t ChannelQuads(std::size_t t, std::size_t c, std::size_t) {
  return ((c / 4) * 16 + t) * 4 + c % 4;
}
std::size_t TokenQuads(std::size_t t, std::size_t c, std::size_t d) {
  return ((t / 4) * d + c) * 4 + t % 4;
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

TEST(PlaneLayoutTest, EveryCodeOfAByteLiesWhereTheDocumentSays) {
  const std::size_t d = 80;
  for (const char* format : {"fp8_e4m3", "fp8_e5m2", "int8"}) {
    const PageCodec& codec = **FindCodec(format);
    const FormatId id = codec.info().id;
    const auto value_of = [id](std::uint8_t code) {
      if (id == FormatId::kInt8) return static_cast<float>(code - 128);
      return id == FormatId::kFp8E4m3 ? Fp8E4m3::ToFloat(code) : Fp8E5m2::ToFloat(code);
    };
    const float largest = id == FormatId::kInt8 ? 127 : id == FormatId::kFp8E4m3 ? 448 : 57344;
    // Small integers that every format has, and one value that sets the scale to 1. Rows are given
    // to the codec rotated, which it undoes.
    std::vector<float> values(16 * d);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = i % d == 5 ? largest : static_cast<float>(static_cast<int>(i * 7 % 17) - 8);
    }
    std::vector<float> rows = values;
    for (std::size_t t = 0; t < 16; ++t) RotateRow(rows.data() + t * d, static_cast<int>(d));
    for (Plane kind : {Plane::kKey, Plane::kValue}) {
      std::vector<std::byte> plane(codec.PlaneBytes(static_cast<int>(d)));
      std::uint16_t scales[16] = {};
      codec.Encode({kind, static_cast<int>(d), plane.data(), scales}, {0, 16}, rows.data(), d);
      for (std::size_t t = 0; t < 16; ++t) {
        EXPECT_NEAR(HalfToFloat(scales[t]), 1, 0x1p-10);
        for (std::size_t c = 0; c < d; ++c) {
          const std::size_t at = kind == Plane::kKey ? ChannelQuads(t, c, d) : TokenQuads(t, c, d);
          const auto code = static_cast<std::uint8_t>(plane[at]);
          // E5M2 holds the rounding of a rotated 57344, not a small integer beside it.
          if (id == FormatId::kFp8E5m2 && c != 5) continue;
          ASSERT_EQ(value_of(code), values[t * d + c]) << format << " t=" << t << " c=" << c;
        }
      }
    }
  }
}

TEST(PlaneLayoutTest, EveryNibbleLiesWhereTheDocumentSays) {
  const PageCodec& codec = **FindCodec("int4");
  const std::size_t d = 64;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> rows(16 * d);
  for (float& value : rows) value = normal(random);
  for (Plane kind : {Plane::kKey, Plane::kValue}) {
    std::vector<std::uint8_t> plane(codec.PlaneBytes(static_cast<int>(d)));
    std::uint16_t scales[16] = {};
    codec.Encode({kind, static_cast<int>(d), reinterpret_cast<std::byte*>(plane.data()), scales},
                 {0, 16}, rows.data(), d);
    for (std::size_t t = 0; t < 16; ++t) {
      std::vector<float> rotated(rows.begin() + static_cast<std::ptrdiff_t>(t * d),
                                 rows.begin() + static_cast<std::ptrdiff_t>((t + 1) * d));
      RotateRow(rotated.data(), static_cast<int>(d));
      const float scale = HalfToFloat(scales[t]);
      for (std::size_t c = 0; c < d; ++c) {
        const std::size_t half = kind == Plane::kKey ? c / (d / 2) : t / 8;
        const std::size_t byte =
            kind == Plane::kKey ? ChannelQuads(t, c % (d / 2), d) : TokenQuads(t % 8, c, d);
        const unsigned code = (plane[byte] >> (4 * half)) & 15U;
        const float value = static_cast<float>(kInt4Levels[code]) * scale;
        for (const std::int8_t level : kInt4Levels) {  // the nearest level was taken
          ASSERT_LE(std::fabs(rotated[c] - value),
                    std::fabs(rotated[c] - static_cast<float>(level) * scale) + 1e-6F);
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
  EXPECT_EQ(codec.status().message(),
            "a page format is one of f16, bf16, fp8_e4m3, fp8_e5m2, int8, int4, f32, not: int3");
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
