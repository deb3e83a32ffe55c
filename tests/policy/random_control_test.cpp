// SPDX-License-Identifier: Apache-2.0
// Checks that the random control is uniform, and the same for the same place.
#include "policy/random_control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace swiftkv {
namespace {

struct Place {
  std::uint64_t seed = 7;
  int layer = 0;
  int first_head = 0;
  int kv_heads = 1;
};

std::vector<float> Scores(const Place& place, const std::vector<std::int32_t>& positions) {
  ScoreInputs inputs;
  inputs.seed = place.seed;
  inputs.layer = place.layer;
  inputs.first_head = place.first_head;
  inputs.kv_heads = place.kv_heads;
  inputs.num_tokens = static_cast<int>(positions.size());
  inputs.positions = positions;
  inputs.next_position = positions.back() + 1;
  std::vector<float> scores(static_cast<std::size_t>(place.kv_heads) * positions.size());
  kRandomPolicy.Score(inputs, {}, scores);
  return scores;
}

std::vector<std::int32_t> Positions(int count) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(count));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

TEST(RandomPolicyTest, ScoresAreUniform) {
  const std::vector<float> scores = Scores({.kv_heads = 3}, Positions(10000));
  std::vector<int> tenths(10);
  for (const float score : scores) {
    ASSERT_GE(score, 0);
    ASSERT_LT(score, 1);
    ++tenths[static_cast<std::size_t>(score * 10)];
  }
  for (const int count : tenths) EXPECT_NEAR(count, 3000, 250);  // nearly five deviations
}

TEST(RandomPolicyTest, ATokenKeepsItsScoreWhateverElseIsThere) {
  const std::vector<float> all = Scores({}, Positions(100));
  const std::vector<float> some = Scores({}, {3, 50, 99});
  EXPECT_EQ(some, (std::vector<float>{all[3], all[50], all[99]}));
}

TEST(RandomPolicyTest, AHeadIsScoredAloneAsAmongOthers) {
  const std::vector<float> together = Scores({.kv_heads = 3}, Positions(40));
  const std::vector<float> alone = Scores({.first_head = 2}, Positions(40));
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + 80));
}

TEST(RandomPolicyTest, SeedsLayersAndHeadsDiffer) {
  const std::vector<float> scores = Scores({.kv_heads = 2}, Positions(50));
  const auto half = scores.begin() + 50;
  EXPECT_FALSE(std::equal(scores.begin(), half, half));
  const std::vector<float> head(scores.begin(), half);
  EXPECT_NE(Scores({.seed = 8}, Positions(50)), head);
  EXPECT_NE(Scores({.layer = 1}, Positions(50)), head);
}

}  // namespace
}  // namespace swiftkv
