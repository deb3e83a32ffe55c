// SPDX-License-Identifier: Apache-2.0
// Tests that text from files and models cannot drive a terminal or fake a line.
#include "tools/printable_text.h"

#include <gtest/gtest.h>

namespace swiftkv {
namespace {

TEST(PrintableTextTest, LinesEscapeControlCharactersAndReplaceBadBytes) {
  EXPECT_EQ(PrintableLine("a\nb\tc\x1b[1m\x7f"), "a\\nb\\tc\\x1b[1m\\x7f");
  EXPECT_EQ(PrintableLine("\xc2\x9b"
                          "31m"),
            "\\x9b31m");
  EXPECT_EQ(PrintableLine("\xff!"), "\xEF\xBF\xBD!");
  EXPECT_EQ(PrintableLine("Größe 日本"), "Größe 日本");
}

TEST(PrintableTextTest, RepliesKeepLineBreaksAndTabsOnly) {
  EXPECT_EQ(PrintableReply("a\n\tb\r\x1b[2Jc\xc2\x85"), "a\n\tb[2Jc");
  EXPECT_EQ(PrintableReply("é€😀"), "é€😀");
}

TEST(PrintableTextTest, ExcerptsCountCharactersNotBytes) {
  EXPECT_EQ(PrintableExcerpt("éééééé", 6), "éééééé");
  EXPECT_EQ(PrintableExcerpt("ééééééé", 6), "ééé...");
  EXPECT_EQ(PrintableExcerpt("", 6), "");
}

}  // namespace
}  // namespace swiftkv
