// SPDX-License-Identifier: Apache-2.0
// Compares keydiff with its formula, written out in double precision.
#include "policy/keydiff.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "random_layer.h"

namespace swiftkv {
namespace {

double Norm(const std::vector<double>& row) {
  double square = 0;
  for (const double value : row) square += value * value;
  return std::sqrt(square);
}

// -cos(k_t, mean of k / |k|) for every head and token.
std::vector<double> PlainScores(const RandomLayer& layer) {
  const auto tokens = static_cast<std::size_t>(layer.inputs.num_tokens);
  const auto dim = static_cast<std::size_t>(layer.inputs.head_dim);
  std::vector<double> scores;
  for (std::size_t head = 0; head < layer.num_scores() / tokens; ++head) {
    std::vector<std::vector<double>> keys;
    std::vector<double> mean(dim);
    for (std::size_t t = 0; t < tokens; ++t) {
      const float* const key = layer.keys.data() + (head * tokens + t) * dim;
      keys.emplace_back(key, key + dim);
      const double norm = Norm(keys.back());
      for (std::size_t i = 0; i < dim; ++i) {
        mean[i] += keys.back()[i] / norm / static_cast<double>(tokens);
      }
    }
    for (const std::vector<double>& key : keys) {
      double dot = 0;
      for (std::size_t i = 0; i < dim; ++i) dot += key[i] * mean[i];
      scores.push_back(-dot / Norm(key) / Norm(mean));
    }
  }
  return scores;
}

TEST(KeyDiffTest, ScoresAreTheFormulas) {
  for (const int dim : {16, 40, 64, 128}) {
    const RandomLayer layer({.head_dim = dim, .num_tokens = 77});
    std::vector<float> scores(layer.num_scores());
    kKeyDiffPolicy.Score(layer.inputs, {}, scores);
    const std::vector<double> plain = PlainScores(layer);
    for (std::size_t i = 0; i < plain.size(); ++i) ASSERT_NEAR(scores[i], plain[i], 2e-6) << dim;
  }
}

TEST(KeyDiffTest, TheOddOneOutIsKeptAndLengthsDoNotMatter) {
  RandomLayer layer({.kv_heads = 1, .head_dim = 16, .num_tokens = 20});
  for (std::size_t t = 0; t < 20; ++t) {
    for (std::size_t i = 0; i < 16; ++i) {
      layer.keys[t * 16 + i] = static_cast<float>(t + 1) * (i == (t == 11 ? 3 : 5) ? 1.0F : 0.01F);
    }
  }
  std::vector<float> scores(20);
  kKeyDiffPolicy.Score(layer.inputs, {}, scores);
  for (std::size_t t = 0; t < 20; ++t) {
    if (t == 11) continue;
    EXPECT_GT(scores[11], scores[t] + 0.5F);
    EXPECT_NEAR(scores[t], scores[0], 1e-6);
  }
}

TEST(KeyDiffTest, AZeroKeyIsLikeNothing) {
  RandomLayer layer({.kv_heads = 1, .head_dim = 16, .num_tokens = 5});
  std::fill_n(layer.keys.begin() + 16, 16, 0.0F);
  std::vector<float> scores(5);
  kKeyDiffPolicy.Score(layer.inputs, {}, scores);
  EXPECT_EQ(scores[1], 0);
}

}  // namespace
}  // namespace swiftkv
