// SPDX-License-Identifier: Apache-2.0
// Tests log-probabilities against the plain formula.
#include "model/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace swiftkv {
namespace {

TEST(LogprobsTest, AreTheSoftmaxOfTheRawLogitsAndAtMostZero) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 4.0F);
  std::vector<float> logits(5000);
  for (float& logit : logits) logit = normal(random);
  long double sum = 0.0L;
  for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
  double total = 0.0;
  for (TokenId token = 0; token < 5000; token += 7) {
    const TokenLogprob row = LogprobOf(logits, token);
    EXPECT_EQ(row.token, token);
    EXPECT_LE(row.logprob, 0.0F);
    EXPECT_NEAR(row.logprob, logits[static_cast<std::size_t>(token)] - std::log(sum), 1e-5);
  }
  for (const TokenLogprob& row : TopLogprobs(logits, 5000)) total += std::exp(row.logprob);
  EXPECT_NEAR(total, 1.0, 1e-4);
}

TEST(LogprobsTest, TopRowsAreSortedWithLowerIdsFirstAmongEquals) {
  const std::vector<float> logits = {1.0F, 3.0F, 2.0F, 3.0F, -1.0F};
  const auto top = TopLogprobs(logits, 3);
  ASSERT_EQ(top.size(), 3U);
  EXPECT_EQ(top[0].token, 1);
  EXPECT_EQ(top[1].token, 3);
  EXPECT_EQ(top[2].token, 2);
  EXPECT_EQ(top[0], LogprobOf(logits, 1));
  EXPECT_TRUE(TopLogprobs(logits, 0).empty());
  EXPECT_TRUE(TopLogprobs(logits, -1).empty());
  EXPECT_EQ(TopLogprobs(logits, 50).size(), 5U);
}

TEST(LogprobsTest, LargeLogitsNeitherOverflowNorExceedZero) {
  const std::vector<float> logits = {3e38F, -3e38F, 1e30F};
  EXPECT_EQ(LogprobOf(logits, 0).logprob, 0.0F);
  EXPECT_EQ(TopLogprobs(logits, 1)[0].token, 0);
}

}  // namespace
}  // namespace swiftkv
