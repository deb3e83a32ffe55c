// SPDX-License-Identifier: Apache-2.0
// Compares snapkv with its formula, written out token by token.
#include "policy/snapkv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "random_layer.h"

namespace swiftkv {
namespace {

std::vector<float> Scores(const RandomLayer& layer, const PolicyParameters& parameters) {
  std::vector<float> scores(layer.num_scores());
  kSnapKvPolicy.Score(layer.inputs, parameters, scores);
  return scores;
}

std::vector<double> PlainScores(const RandomLayer& layer, int pool) {
  const int tokens = layer.inputs.num_tokens;
  const std::int64_t end = layer.inputs.next_position - layer.inputs.observed_queries;
  std::vector<double> scores;
  for (int head = 0; head < layer.inputs.kv_heads; ++head) {
    double highest = 0;
    for (int pass = 0; pass < 2; ++pass) {  // the highest first
      for (int t = 0; t < tokens; ++t) {
        double sum = 0;
        for (int j = t - pool / 2; j <= t + pool / 2; ++j) {
          if (j < 0 || j >= tokens || layer.positions[static_cast<std::size_t>(j)] >= end) continue;
          sum += layer.probabilities[static_cast<std::size_t>(head * tokens + j)];
        }
        const double score = sum / pool / layer.inputs.observed_queries / layer.inputs.gqa;
        const bool observed = layer.positions[static_cast<std::size_t>(t)] >= end;
        if (pass == 0 && !observed) highest = std::max(highest, score);
        if (pass == 1) scores.push_back(observed ? highest : score);
      }
    }
  }
  return scores;
}

TEST(SnapKvTest, ScoresAreTheFormulas) {
  for (const int tokens : {1, 2, 3, 9, 60}) {
    for (const int pool : {1, 3, 5, 25}) {
      const RandomLayer layer({.num_tokens = tokens});
      const std::vector<float> scores = Scores(layer, {{"pool", pool}});
      const std::vector<double> plain = PlainScores(layer, pool);
      for (std::size_t i = 0; i < plain.size(); ++i) {
        ASSERT_NEAR(scores[i], plain[i], 1e-6) << tokens << " tokens, pool " << pool;
      }
    }
  }
}

TEST(SnapKvTest, FiveNeighboursAreThePlainChoice) {
  const RandomLayer layer({});
  EXPECT_EQ(Scores(layer, {}), Scores(layer, {{"pool", 5}}));
  EXPECT_EQ(kSnapKvPolicy.ObservedQueries({}), 64);
  EXPECT_EQ(kSnapKvPolicy.ObservedQueries({{"window", 32}}), 32);
}

TEST(SnapKvTest, ATokenThatNobodyReadProfitsFromItsNeighbour) {
  RandomLayer layer({.kv_heads = 1, .num_tokens = 40});
  std::fill(layer.probabilities.begin(), layer.probabilities.end(), 0.0F);
  layer.probabilities[10] = 1;
  const std::vector<float> scores = Scores(layer, {});
  for (std::size_t t = 0; t < 30; ++t) EXPECT_EQ(scores[t] > 0, t >= 8 && t <= 12) << t;
}

TEST(SnapKvTest, AnEvenPoolIsRefused) {
  const Status status = kSnapKvPolicy.Validate({{"pool", 4}});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), testing::EndsWith("odd number, not: 4"));
  EXPECT_FALSE(kSnapKvPolicy.Validate({{"window", 0}}).ok());
  EXPECT_TRUE(kSnapKvPolicy.Validate({{"window", 32}, {"pool", 7}}).ok());
}

}  // namespace
}  // namespace swiftkv
