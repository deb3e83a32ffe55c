// SPDX-License-Identifier: Apache-2.0
// Checks the yardsticks that judge models against distributions whose divergence is known.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/logits.h"

namespace swiftkv {
namespace {

TEST(DivergenceTest, TwoKnownDistributionsHaveTheTextbookDivergence) {
  // softmax of these is (1/2, 1/2) and (3/4, 1/4): KL = 1/2 ln(2/3) + 1/2 ln 2 = 1/2 ln(4/3).
  const std::vector<float> even = {5.0F, 5.0F};
  const std::vector<float> skewed = {std::log(3.0F), 0.0F};
  EXPECT_NEAR(KlDivergence(even, skewed), 0.5 * std::log(4.0 / 3.0), 1e-7);
}

TEST(DivergenceTest, AShiftOfAllLogitsIsNoDifference) {
  const std::vector<float> row = {1.0F, -2.0F, 0.5F};
  const std::vector<float> shifted = {3.0F, 0.0F, 2.5F};
  EXPECT_NEAR(KlDivergence(row, shifted), 0.0, 1e-8);
}

TEST(DivergenceTest, LargeLogitsDoNotOverflow) {
  const std::vector<float> row = {1000.0F, 0.0F};
  const std::vector<float> other = {999.0F, 0.0F};
  EXPECT_NEAR(KlDivergence(row, other), 0.0, 1e-12);
}

TEST(DivergenceTest, ANanFailsEveryBound) {
  const std::vector<float> row = {1.0F, 2.0F};
  const std::vector<float> broken = {1.0F, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_FALSE(MaxAbsDifference(row, broken) <= 1e30F);
  const std::vector<float> broken_first = {std::numeric_limits<float>::quiet_NaN(), 2.0F};
  EXPECT_FALSE(MaxAbsDifference(row, broken_first) <= 1e30F);
  EXPECT_FALSE(KlDivergence(row, broken) <= 1e30);
}

TEST(DivergenceTest, LogProbabilitiesOfARowSumToOne) {
  const std::vector<float> row = {0.25F, -1.0F, 3.0F, 2.0F};
  double sum = 0.0;
  for (int32_t token = 0; token < 4; ++token) sum += std::exp(LogProbability(row, token));
  EXPECT_NEAR(sum, 1.0, 1e-7);
}

TEST(DivergenceTest, TopGapIsTheDistanceToTheRunnerUpWhereverItStands) {
  EXPECT_FLOAT_EQ(TopGap(std::vector<float>{1.0F, 4.0F, 3.5F}), 0.5F);
  EXPECT_FLOAT_EQ(TopGap(std::vector<float>{3.5F, 1.0F, 4.0F}), 0.5F);
  EXPECT_FLOAT_EQ(TopGap(std::vector<float>{4.0F, 4.0F}), 0.0F);
}

TEST(DivergenceTest, SummaryGivesMeanPercentileAndAgreement) {
  DivergenceSummary summary;
  const std::vector<float> row = {0.0F, 1.0F};
  const std::vector<float> flipped = {1.0F, 0.0F};
  for (int i = 0; i < 9; ++i) summary.Add(row, row);
  summary.Add(row, flipped);
  const double flip = KlDivergence(row, flipped);
  EXPECT_EQ(summary.positions(), 10);
  EXPECT_NEAR(summary.MeanKld(), flip / 10.0, 1e-12);
  EXPECT_NEAR(summary.KldPercentile(90.0), 0.0, 1e-12);
  EXPECT_NEAR(summary.KldPercentile(99.0), flip, 1e-12);
  EXPECT_DOUBLE_EQ(summary.SameTop1(), 0.9);
  EXPECT_EQ(summary.Parted(), 1);
}

TEST(DivergenceTest, GapsAreTakenWhereTheBestTokensPartAndByTheSurerSide) {
  DivergenceSummary summary;
  EXPECT_EQ(summary.WidestGap(), 0.0);
  summary.Add(std::vector<float>{0.0F, 9.0F}, std::vector<float>{0.0F, 1.0F});  // agree
  summary.Add(std::vector<float>{0.5F, 0.0F}, std::vector<float>{0.0F, 0.25F});
  summary.Add(std::vector<float>{0.125F, 0.0F}, std::vector<float>{0.0F, 0.25F});
  EXPECT_DOUBLE_EQ(summary.WidestGap(), 0.5);
  EXPECT_DOUBLE_EQ(summary.MeanGap(), 0.375);
}

TEST(DivergenceTest, RowsAddedTogetherCountAsRowsAddedSingly) {
  Logits reference = {5, 2, {0, 1, 2, 3, 5, 4, 7, 6, 8, 9}};
  Logits other = {5, 2, {1, 0, 2, 3, 4, 5, 7, 6, 8, 8.5F}};
  DivergenceSummary together;
  together.AddRows(reference, other);
  DivergenceSummary singly;
  for (int row = 0; row < 5; ++row) singly.Add(reference.Row(row), other.Row(row));
  EXPECT_EQ(together.positions(), 5);
  EXPECT_EQ(together.MeanKld(), singly.MeanKld());
  EXPECT_EQ(together.Parted(), singly.Parted());
  EXPECT_EQ(together.Parted(), 2);
}

}  // namespace
}  // namespace swiftkv
