// SPDX-License-Identifier: Apache-2.0
// Compares divergences with a plain statement of their definition.
#include "engine/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace swiftkv {
namespace {

std::vector<long double> Probabilities(const std::vector<float>& logits) {
  std::vector<long double> probabilities;
  long double sum = 0;
  for (const float logit : logits) {
    probabilities.push_back(std::exp(static_cast<long double>(logit)));
    sum += probabilities.back();
  }
  for (long double& probability : probabilities) probability /= sum;
  return probabilities;
}

long double PlainKld(const std::vector<float>& exact, const std::vector<float>& other) {
  const std::vector<long double> p = Probabilities(exact);
  const std::vector<long double> q = Probabilities(other);
  long double kld = 0;
  for (std::size_t i = 0; i < p.size(); ++i) kld += p[i] * std::log(p[i] / q[i]);
  return kld;
}

std::vector<float> RandomLogits(std::size_t count, float deviation, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, deviation);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

TEST(DivergenceTest, EqualsItsDefinitionFromNearlyEqualToFarApart) {
  const std::vector<float> exact = RandomLogits(3000, 3.0F, 1);
  for (const float noise : {1e-4F, 1e-2F, 1.0F, 8.0F}) {
    std::vector<float> other = RandomLogits(exact.size(), noise, 2);
    for (std::size_t i = 0; i < other.size(); ++i) other[i] += exact[i];
    const Divergence divergence = CompareDistributions(exact, other, 7);
    const auto expected = static_cast<double>(PlainKld(exact, other));
    EXPECT_NEAR(divergence.kld, expected, 1e-6 * expected) << noise;
    EXPECT_NEAR(divergence.nll, static_cast<double>(-std::log(Probabilities(other)[7])), 1e-9);
  }
}

TEST(DivergenceTest, AShiftOfAllLogitsChangesNothing) {
  const std::vector<float> exact = RandomLogits(500, 2.0F, 3);
  std::vector<float> other = exact;
  for (float& logit : other) logit += 64.0F;
  const Divergence divergence = CompareDistributions(exact, other, 0);
  EXPECT_LT(divergence.kld, 1e-10);
  EXPECT_NEAR(divergence.nll, CompareDistributions(exact, exact, 0).nll, 1e-5);
  EXPECT_TRUE(divergence.same_top1);
}

TEST(DivergenceTest, EqualLogitsHaveNone) {
  const std::vector<float> exact = RandomLogits(500, 2.0F, 4);
  EXPECT_EQ(CompareDistributions(exact, exact, 0).kld, 0.0);
}

TEST(DivergenceTest, TheBestTokenIsTheLowerIdAmongEquals) {
  EXPECT_FALSE(CompareDistributions(std::vector<float>{1, 2, 2}, std::vector<float>{1, 1.9F, 2}, 0)
                   .same_top1);
  EXPECT_TRUE(
      CompareDistributions(std::vector<float>{1, 2, 2}, std::vector<float>{0, 5, 1}, 0).same_top1);
}

TEST(DivergenceTest, LogitsFarBeyondExpStayFinite) {
  const std::vector<float> exact = {0, 2000, -2000, 5};
  const std::vector<float> other = {2000, 0, -2000, 5};
  const Divergence divergence = CompareDistributions(exact, other, 1);
  EXPECT_NEAR(divergence.kld, 2000, 1e-6);
  EXPECT_NEAR(divergence.nll, 2000, 1e-6);
}

TEST(DivergenceTest, WhatIsNoDistributionIsInfinitelyFarAway) {
  const std::vector<float> exact = {0, 1, 2};
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::vector<float> other = {0, bad, 2};
    EXPECT_EQ(CompareDistributions(exact, other, 0).kld, std::numeric_limits<double>::infinity());
    EXPECT_EQ(CompareDistributions(exact, other, 0).nll, std::numeric_limits<double>::infinity());
  }
}

TEST(DivergenceTest, TheSummaryCountsEveryPositionOnce) {
  std::vector<Divergence> positions;
  for (int i = 1; i <= 200; ++i) {
    positions.push_back({.kld = i * 0.01, .nll = 2.0, .same_top1 = i % 4 == 0});
  }
  const DivergenceFigures figures = SummarizeDivergences(positions);
  EXPECT_EQ(figures.positions, 200);
  EXPECT_NEAR(figures.mean_kld, 1.005, 1e-12);
  EXPECT_NEAR(figures.p99_kld, 1.98, 1e-12);
  EXPECT_EQ(figures.same_top1, 0.25);
  EXPECT_NEAR(figures.ppl, std::exp(2.0), 1e-12);
  EXPECT_EQ(SummarizeDivergences({}).positions, 0);
}

}  // namespace
}  // namespace swiftkv
