// SPDX-License-Identifier: Apache-2.0
// Tests who waits for whose blocks, and up to where.
#include "engine/shared_prefill.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace swiftkv {
namespace {

// 0, 1, 2 ... up to `count`, but for -1 at `differs`.
std::vector<std::int32_t> Tokens(int count, int differs = -1) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  if (differs >= 0) tokens[static_cast<std::size_t>(differs)] = -1;
  return tokens;
}

std::int64_t Until(const std::vector<std::int32_t>& mine, std::int64_t found,
                   const std::vector<std::int32_t>& leader, std::int64_t computed) {
  return FollowUntil({.tokens = mine, .computed = found}, {.tokens = leader, .computed = computed});
}

TEST(SharedPrefillTest, OneWaitsForTheWholeBlocksThatAreEqual) {
  EXPECT_EQ(Until(Tokens(100), 0, Tokens(200), 0), 96);
  EXPECT_EQ(Until(Tokens(100, 50), 0, Tokens(200), 0), 48);
  EXPECT_EQ(Until(Tokens(100, 50), 32, Tokens(200), 32), 48);
  EXPECT_EQ(Until(Tokens(100), 32, Tokens(200), 64), 96);
}

TEST(SharedPrefillTest, TheLastTokenOfAPromptIsItsOwn) {
  EXPECT_EQ(Until(Tokens(32), 0, Tokens(32), 0), 16);
  EXPECT_EQ(Until(Tokens(33), 0, Tokens(33), 0), 32);
  EXPECT_EQ(Until(Tokens(16), 0, Tokens(64), 0), 0);
}

TEST(SharedPrefillTest, NobodyWaitsForWhatGivesNoWholeBlockMore) {
  EXPECT_EQ(Until(Tokens(100, 3), 0, Tokens(100), 0), 0);
  EXPECT_EQ(Until(Tokens(100, 50), 48, Tokens(100), 48), 0);
  EXPECT_EQ(Until(Tokens(100), 96, Tokens(100), 96), 0);
  EXPECT_EQ(Until(Tokens(10), 0, Tokens(10), 0), 0);
}

TEST(SharedPrefillTest, NobodyWaitsForOneThatIsBehindOrPast) {
  EXPECT_EQ(Until(Tokens(100), 32, Tokens(100), 16), 0);
  EXPECT_EQ(Until(Tokens(100, 50), 32, Tokens(100), 48), 0);
  EXPECT_EQ(Until(Tokens(100), 0, Tokens(100), 99), 0);
}

}  // namespace
}  // namespace swiftkv
