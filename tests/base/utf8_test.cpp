// SPDX-License-Identifier: Apache-2.0
// Tests that text is given out in whole characters, however its bytes are cut.
#include "base/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace swiftkv {
namespace {

// Emoji with a skin tone, a joined family, a flag, CJK and combining marks.
constexpr std::string_view kMixed =
    "a\xC3\xA9\xE4\xBD\xA0\xE5\xA5\xBD\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD\xF0\x9F\x91\xA8\xE2\x80\x8D"
    "\xF0\x9F\x91\xA9\xF0\x9F\x87\xAB\xF0\x9F\x87\xB7 e\xCC\x81\n";

// Decodes by arithmetic instead of by table: the value of the character at the front, or -1.
std::int32_t DecodeSlowly(std::string_view text, std::size_t length) {
  if (text.size() < length) return -1;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  static constexpr std::uint8_t kLeadMask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  static constexpr std::uint8_t kLeadBits[] = {0, 0x00, 0xC0, 0xE0, 0xF0};
  static constexpr std::int32_t kSmallest[] = {0, 0x0, 0x80, 0x800, 0x10000};
  if ((byte(0) & ~kLeadMask[length] & 0xFF) != kLeadBits[length]) return -1;
  std::int32_t value = byte(0) & kLeadMask[length];
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return -1;
    value = value << 6 | (byte(i) & 0x3F);
  }
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  return value < kSmallest[length] || value > 0x10FFFF || surrogate ? -1 : value;
}

bool IsValidSlowly(std::string_view text) {
  while (!text.empty()) {
    std::size_t length = 1;
    while (length <= 4 && DecodeSlowly(text, length) < 0) ++length;
    if (length > 4) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string FeedInPieces(std::string_view bytes, std::mt19937& random) {
  Utf8Assembler assembler;
  std::string text;
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(bytes.size(), random() % 4);
    const std::string piece = assembler.Feed(bytes.substr(0, size));
    EXPECT_TRUE(IsValidUtf8(piece));
    text += piece;
    bytes.remove_prefix(size);
  }
  return text + assembler.Finish();
}

TEST(Utf8AssemblerTest, SingleBytesGiveTheSameTextInWholeCharacters) {
  Utf8Assembler assembler;
  std::string text;
  for (const char byte : kMixed) {
    const std::string piece = assembler.Feed(std::string_view(&byte, 1));
    EXPECT_TRUE(IsValidUtf8(piece));
    text += piece;
  }
  EXPECT_EQ(text, kMixed);
  EXPECT_EQ(assembler.pending_bytes(), 0U);
  EXPECT_EQ(assembler.Finish(), "");
}

TEST(Utf8AssemblerTest, CutFinalCharacterBecomesOneReplacement) {
  Utf8Assembler assembler;
  EXPECT_EQ(assembler.Feed("ok \xF0\x9F\x91"), "ok ");
  EXPECT_EQ(assembler.pending_bytes(), 3U);
  EXPECT_EQ(assembler.Finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(assembler.Feed("x"), "x");
}

TEST(Utf8AssemblerTest, InvalidBytesAreReplacedAtOnceAndTextGoesOn) {
  Utf8Assembler assembler;
  EXPECT_EQ(assembler.Feed("a\xFF"
                           "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(assembler.Feed("\xE4\xBD"), "");
  EXPECT_EQ(assembler.Feed("A"),
            "\xEF\xBF\xBD"
            "A");
  EXPECT_EQ(assembler.Feed("\x80\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Utf8Test, OneReplacementStandsForEachMaximalStart) {
  // The example of the Unicode standard, section 3.9: 61 F1 80 80 E1 80 C2 62 80 63 80 BF 64.
  EXPECT_EQ(ToValidUtf8("a\xF1\x80\x80\xE1\x80\xC2"
                        "b\x80"
                        "c\x80\xBF"
                        "d"),
            "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
            "b\xEF\xBF\xBD"
            "c\xEF\xBF\xBD\xEF\xBF\xBD"
            "d");
  // Overlong slash, a surrogate, and a value above U+10FFFF.
  EXPECT_EQ(ToValidUtf8("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(ToValidUtf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(ToValidUtf8("\xF4\x90\x80\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Utf8Test, ValidPrefixEndsBeforeTheFirstBadOrCutCharacter) {
  EXPECT_EQ(ValidUtf8Prefix(""), 0U);
  EXPECT_EQ(ValidUtf8Prefix("a\xC3\xA9"), 3U);
  EXPECT_EQ(ValidUtf8Prefix("a\xC3\xA9\xFF"
                            "b"),
            3U);
  EXPECT_EQ(ValidUtf8Prefix("a\xF0\x9F\x91"), 1U);
}

TEST(Utf8Test, EveryCodePointIsAcceptedAndEverySurrogateRefused) {
  for (std::int32_t value = 0; value <= 0x10FFFF; ++value) {
    std::string text;
    const auto tail = [&](int shift) { return static_cast<char>(0x80 | (value >> shift & 0x3F)); };
    if (value < 0x80) {
      text = {static_cast<char>(value)};
    } else if (value < 0x800) {
      text = {static_cast<char>(0xC0 | value >> 6), tail(0)};
    } else if (value < 0x10000) {
      text = {static_cast<char>(0xE0 | value >> 12), tail(6), tail(0)};
    } else {
      text = {static_cast<char>(0xF0 | value >> 18), tail(12), tail(6), tail(0)};
    }
    ASSERT_EQ(IsValidUtf8(text), value < 0xD800 || value > 0xDFFF) << value;
  }
}

TEST(Utf8Test, RandomBytesAreJudgedAsByTheSlowDecoderAndRepairIsIndependentOfCuts) {
  std::mt19937 random(7);
  // Bytes near the borders of the table, so that well-formed and nearly well-formed sequences both
  // occur.
  const std::vector<int> pool = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1,
                                 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF3, 0xF4, 0xF5};
  int valid = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (std::size_t size = random() % 9; bytes.size() < size;) {
      bytes += static_cast<char>(pool[random() % pool.size()]);
    }
    ASSERT_EQ(IsValidUtf8(bytes), IsValidSlowly(bytes));
    const std::string repaired = ToValidUtf8(bytes);
    ASSERT_TRUE(IsValidSlowly(repaired));
    if (IsValidUtf8(bytes)) {
      ++valid;
      ASSERT_EQ(repaired, bytes);
    }
    ASSERT_EQ(FeedInPieces(bytes, random), repaired);
  }
  EXPECT_GT(valid, 1000);
}

}  // namespace
}  // namespace swiftkv
