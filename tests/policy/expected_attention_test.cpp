// SPDX-License-Identifier: Apache-2.0
// Compares expected_attention with its formula: rotations averaged position by position, full
// matrices, double precision.
#include "policy/expected_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "policy/future_queries.h"
#include "random_layer.h"

namespace swiftkv {
namespace {

using Matrix = std::vector<std::vector<double>>;

std::vector<float> Frequencies(int rotated, double base) {
  std::vector<float> frequencies;
  for (int i = 0; i < rotated / 2; ++i) {
    frequencies.push_back(static_cast<float>(std::pow(base, -2.0 * i / rotated)));
  }
  return frequencies;
}

// The mean over positions [first, first + horizon) of the rotation as a matrix.
Matrix PlainRotation(const RopeRotation& rope, std::size_t dim, std::int64_t first, int horizon) {
  Matrix mean(dim, std::vector<double>(dim));
  const std::size_t half = rope.frequencies.size();
  for (std::size_t i = 2 * half; i < dim; ++i) mean[i][i] = 1;
  for (std::size_t i = 0; i < half; ++i) {
    const std::size_t a = rope.pairs == RopePairs::kInterleaved ? 2 * i : i;
    const std::size_t b = rope.pairs == RopePairs::kInterleaved ? 2 * i + 1 : i + half;
    for (std::int64_t p = first; p < first + horizon; ++p) {
      const double angle = static_cast<double>(p) * static_cast<double>(rope.frequencies[i]);
      const double weight = static_cast<double>(rope.magnitude) / horizon;
      mean[a][a] += weight * std::cos(angle);
      mean[a][b] -= weight * std::sin(angle);
      mean[b][a] += weight * std::sin(angle);
      mean[b][b] += weight * std::cos(angle);
    }
  }
  return mean;
}

Matrix Product(const Matrix& a, const Matrix& b, bool transposed) {
  Matrix product(a.size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a.size(); ++j) {
      for (std::size_t m = 0; m < a.size(); ++m) {
        product[i][j] += a[i][m] * (transposed ? b[j][m] : b[m][j]);
      }
    }
  }
  return product;
}

struct Plain {
  int horizon = 512;
  double epsilon = 0.01;
  std::size_t sinks = 4;
};

std::vector<double> PlainScores(const RandomLayer& layer, const Plain& plain) {
  const ScoreInputs& in = layer.inputs;
  const auto dim = static_cast<std::size_t>(in.head_dim);
  const auto tokens = static_cast<std::size_t>(in.num_tokens);
  const auto gqa = static_cast<std::size_t>(in.gqa);
  const Matrix turn = PlainRotation(in.rope, dim, in.next_position, plain.horizon);
  const double scale = in.attention_scale;
  std::size_t sinks = 0;
  while (sinks < tokens && in.positions[sinks] < static_cast<int>(plain.sinks)) ++sinks;
  std::vector<double> scores(layer.num_scores());
  for (std::size_t h = 0; h < layer.num_scores() / tokens; ++h) {
    for (std::size_t g = 0; g < gqa; ++g) {
      const std::size_t query_head = h * gqa + g;
      Matrix covariance(dim, std::vector<double>(dim));
      std::vector<double> mean(dim);
      for (std::size_t i = 0; i < dim; ++i) {
        for (std::size_t j = 0; j < dim; ++j) {
          mean[i] += turn[i][j] * in.query_mean[query_head * dim + j];
          covariance[i][j] = in.query_covariance[(query_head * dim + i) * dim + j];
        }
      }
      covariance = Product(Product(turn, covariance, false), turn, true);
      std::vector<double> weights(tokens);
      double sum = 0;
      for (std::size_t t = sinks; t < tokens; ++t) {
        const float* const key = in.keys.data() + (h * tokens + t) * dim;
        double logit = 0;
        for (std::size_t i = 0; i < dim; ++i) {
          logit += scale * mean[i] * key[i];
          for (std::size_t j = 0; j < dim; ++j) {
            logit += scale * scale / 2 * key[i] * covariance[i][j] * key[j];
          }
        }
        sum += weights[t] = std::exp(logit);
      }
      for (std::size_t t = sinks; t < tokens; ++t) {
        scores[h * tokens + t] += weights[t] / sum / static_cast<double>(gqa);
      }
    }
    double highest = 0;
    for (std::size_t t = sinks; t < tokens; ++t) {
      double& score = scores[h * tokens + t];
      score = (score + plain.epsilon) * in.value_norms[h * tokens + t];
      highest = std::max(highest, score);
    }
    for (std::size_t t = 0; t < sinks; ++t) scores[h * tokens + t] = highest;
  }
  return scores;
}

void ExpectFormula(const RandomLayer& layer, const PolicyParameters& parameters,
                   const Plain& plain) {
  std::vector<float> scores(layer.num_scores());
  kExpectedAttentionPolicy.Score(layer.inputs, parameters, scores);
  const std::vector<double> expected = PlainScores(layer, plain);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(scores[i], expected[i], 2e-5 * (1e-2 + expected[i])) << "score " << i;
  }
}

TEST(ExpectedAttentionTest, ScoresAreTheFormulasInBothLayoutsOfRope) {
  for (const RopePairs pairs : {RopePairs::kInterleaved, RopePairs::kSplitHalf}) {
    for (const int dim : {16, 30, 64}) {
      RandomLayer layer({.head_dim = dim, .num_tokens = 41});
      const std::vector<float> frequencies = Frequencies(dim, 10000);
      layer.inputs.rope = {.frequencies = frequencies, .pairs = pairs};
      ExpectFormula(layer, {}, {});
    }
  }
}

TEST(ExpectedAttentionTest, PartOfTheChannelsAMagnitudeAndNoRopeAreServed) {
  RandomLayer layer({.num_tokens = 30});
  ExpectFormula(layer, {}, {});
  const std::vector<float> frequencies = Frequencies(20, 500000);
  layer.inputs.rope = {.frequencies = frequencies, .magnitude = 1.3F};
  ExpectFormula(layer, {}, {});
  layer.inputs.rope.pairs = RopePairs::kSplitHalf;
  ExpectFormula(layer, {}, {});
}

TEST(ExpectedAttentionTest, ParametersAreTheFormulas) {
  RandomLayer layer({.num_tokens = 30});
  const std::vector<float> frequencies = Frequencies(32, 10000);
  layer.inputs.rope.frequencies = frequencies;
  ExpectFormula(layer, {{"horizon", 7}, {"epsilon", 0.5}, {"sinks", 20}},
                {.horizon = 7, .epsilon = 0.5, .sinks = 20});
  ExpectFormula(layer, {{"epsilon", 0}, {"sinks", 0}}, {.epsilon = 0, .sinks = 0});
}

TEST(ExpectedAttentionTest, FewTokensAndSinksOnlyAreServed) {
  for (const int tokens : {1, 2, 3, 9}) ExpectFormula(RandomLayer({.num_tokens = tokens}), {}, {});
}

TEST(ExpectedAttentionTest, TheAsymmetryOfRoundedCovariancesDoesNotMatter) {
  RandomLayer layer({.kv_heads = 1, .gqa = 1, .num_tokens = 12});
  layer.query_covariance[1] += 0.5F;  // k'Ck sees the sum of both sides
  ExpectFormula(layer, {}, {});
}

TEST(MeanRotationTest, ManyPositionsOfAFastPairCancelAndASlowPairIsTurned) {
  const std::vector<float> frequencies = {1.0F, 1e-6F, 0.0F};
  const MeanRotation rotation({.frequencies = frequencies}, 1000, 512);
  std::vector<float> row = {1, 0, 1, 0, 1, 0};
  rotation.TurnRow(row);
  EXPECT_LT(std::hypot(row[0], row[1]), 0.005);
  EXPECT_NEAR(row[2], 1, 1e-5);
  EXPECT_NEAR(row[3], 1255.5e-6, 1e-6);
  EXPECT_EQ(row[4], 1);
  EXPECT_EQ(row[5], 0);
}

TEST(MeanRotationTest, ATurnOfTheFullCircleIsNone) {
  const std::vector<float> frequencies = {6.2831853F};
  const MeanRotation rotation({.frequencies = frequencies}, 0, 64);
  std::vector<float> row = {0.25F, 0.75F};
  rotation.TurnRow(row);
  EXPECT_NEAR(row[0], 0.25F, 1e-4);
  EXPECT_NEAR(row[1], 0.75F, 1e-4);
}

}  // namespace
}  // namespace swiftkv
