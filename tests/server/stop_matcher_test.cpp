// SPDX-License-Identifier: Apache-2.0
// Tests where replies are cut off, against a search over the whole text.
#include "server/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace swiftkv {
namespace {

// The text before the stop string whose last character comes first, the longest of equals.
std::string CutSlowly(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

std::string Join(StopMatcher matcher, const std::string& text, std::size_t piece) {
  std::string shown;
  for (std::size_t i = 0; i < text.size(); i += piece) shown += matcher.Feed(text.substr(i, piece));
  return shown + matcher.Finish();
}

TEST(StopMatcherTest, CutsAtTheSamePlaceHoweverTheTextComesInPieces) {
  std::mt19937 random(7);
  const std::vector<std::vector<std::string>> lists = {
      {"a"}, {"ab", "ba"}, {"aab"}, {"abab", "b"}, {"bbb", "abb"}, {"c"}, {"aabab", "ab"}, {}};
  for (int trial = 0; trial < 2000; ++trial) {
    std::string text;
    const auto size = static_cast<int>(random() % 12);
    for (int i = 0; i < size; ++i) text += static_cast<char>('a' + random() % 2);
    const auto& stops = lists[static_cast<std::size_t>(trial) % lists.size()];
    for (const std::size_t piece : {1U, 2U, 3U, 12U}) {
      ASSERT_EQ(Join(StopMatcher(stops), text, piece), CutSlowly(text, stops))
          << text << " in pieces of " << piece;
    }
  }
}

TEST(StopMatcherTest, HoldsBackOnlyWhatMayStillBecomeAStop) {
  StopMatcher matcher({"KLMNOP"});
  EXPECT_EQ(matcher.Feed("HIJK"), "HIJ");
  EXPECT_EQ(matcher.Feed("LMN"), "");
  EXPECT_EQ(matcher.Feed("x"), "KLMNx");
  EXPECT_EQ(matcher.Feed("KLM"), "");
  EXPECT_EQ(matcher.Feed("NOPQ"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.Feed("more"), "");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcherTest, GivesWhatWasHeldBackWhereTheReplyEnds) {
  StopMatcher matcher({"\n\n", "###"});
  EXPECT_EQ(matcher.Feed("a\n"), "a");
  EXPECT_EQ(matcher.Finish(), "\n");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcherTest, NeverSplitsACharacter) {
  StopMatcher matcher({"日本"});
  EXPECT_EQ(matcher.Feed("ü日"), "ü");
  EXPECT_EQ(matcher.Feed("時"), "日時");
}

}  // namespace
}  // namespace swiftkv
