// SPDX-License-Identifier: Apache-2.0
// Tests the arrival times of loads against the moments of their distributions.
#include "tools/bench_serve_arrivals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace swiftkv {
namespace {

constexpr int kGaps = 20000;

std::vector<double> Gaps(double rate, double burstiness, std::uint64_t seed) {
  ArrivalDraws draws(rate, burstiness, seed);
  std::vector<double> gaps(kGaps);
  for (double& gap : gaps) gap = draws.NextGap();
  return gaps;
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double Variance(const std::vector<double>& values) {
  const double mean = Mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(values.size());
}

TEST(BenchServeArrivalsTest, ASeedIsASchedule) {
  EXPECT_EQ(Gaps(3, 1, 5), Gaps(3, 1, 5));
  EXPECT_EQ(Gaps(3, 0.5, 5), Gaps(3, 0.5, 5));
  EXPECT_NE(Gaps(3, 1, 5), Gaps(3, 1, 6));
}

// A gamma distribution of shape b and mean m has the variance m^2 / b.
TEST(BenchServeArrivalsTest, GapsHaveTheMomentsOfTheirDistribution) {
  for (const double rate : {0.5, 8.0}) {
    for (const double burstiness : {0.25, 1.0, 4.0}) {
      SCOPED_TRACE(testing::Message() << rate << " " << burstiness);
      const std::vector<double> gaps = Gaps(rate, burstiness, 1);
      for (const double gap : gaps) ASSERT_GE(gap, 0);
      EXPECT_NEAR(Mean(gaps) * rate, 1, 0.05);
      EXPECT_NEAR(Variance(gaps) * rate * rate * burstiness, 1, 0.1);
    }
  }
}

TEST(BenchServeArrivalsTest, PoissonArrivalsHaveNoMemory) {
  const std::vector<double> gaps = Gaps(2, 1, 9);
  for (const double seconds : {0.1, 0.5, 1.0}) {
    int longer = 0;
    for (const double gap : gaps) longer += gap > seconds ? 1 : 0;
    EXPECT_NEAR(longer / double{kGaps}, std::exp(-2 * seconds), 0.015);
  }
}

}  // namespace
}  // namespace swiftkv
