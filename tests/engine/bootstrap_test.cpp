// SPDX-License-Identifier: Apache-2.0
// Tests intervals against what is known of the distributions that figures were drawn from.
#include "engine/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace swiftkv {
namespace {

// Sums of 12 uniform numbers, less 6: deviation 1, the same with every library.
double NearNormal(std::mt19937_64* random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>((*random)() >> 11) * 0x1.0p-53;
  return sum;
}

std::vector<ResampledUnit> Units(int count, double mean, double deviation, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<ResampledUnit> units;
  for (int i = 0; i < count; ++i) {
    const double samples = 1 + i % 3;  // units of unlike sizes
    units.push_back({samples * (mean + deviation * NearNormal(&random)), samples});
  }
  return units;
}

TEST(BootstrapTest, AMeanOfEqualFiguresHasNoWidth) {
  const Interval interval = BootstrapMean(Units(50, 3.5, 0, 1), {});
  EXPECT_DOUBLE_EQ(interval.value, 3.5);
  EXPECT_NEAR(interval.low, 3.5, 1e-12);
  EXPECT_NEAR(interval.high, 3.5, 1e-12);
}

TEST(BootstrapTest, TheWidthIsThatOfTheNormalApproximation) {
  std::vector<ResampledUnit> units;
  std::mt19937_64 random(7);
  for (int i = 0; i < 400; ++i) units.push_back({10 + 2 * NearNormal(&random), 1});
  const Interval interval = BootstrapMean(units, {});
  const double half = 1.96 * 2 / std::sqrt(400.0);
  EXPECT_NEAR(interval.value, 10, 3 * half);
  EXPECT_NEAR(interval.high - interval.value, half, 0.15 * half);
  EXPECT_NEAR(interval.value - interval.low, half, 0.15 * half);
}

TEST(BootstrapTest, IntervalsHoldTheTruthAsOftenAsTheySay) {
  int held = 0;
  constexpr int kTrials = 200;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Interval interval =
        BootstrapMean(Units(60, 1, 1, static_cast<std::uint64_t>(trial) + 1), {.draws = 400});
    held += interval.low <= 1 && 1 <= interval.high ? 1 : 0;
  }
  EXPECT_GE(held, kTrials * 88 / 100);
  EXPECT_LE(held, kTrials * 99 / 100);
}

TEST(BootstrapTest, PairsCancelWhatTheyHaveInCommon) {
  const std::vector<ResampledUnit> base = Units(40, 5, 3, 2);
  std::vector<ResampledUnit> shifted = base;
  for (ResampledUnit& unit : shifted) unit.sum += 0.25 * unit.count;
  const Interval difference = BootstrapDifference(shifted, base, {});
  EXPECT_NEAR(difference.value, 0.25, 1e-12);
  EXPECT_NEAR(difference.low, 0.25, 1e-9);
  EXPECT_NEAR(difference.high, 0.25, 1e-9);
  EXPECT_GT(BootstrapMean(base, {}).high - BootstrapMean(base, {}).low, 1);
}

TEST(BootstrapTest, ASeedGivesTheSameIntervalAgain) {
  const std::vector<ResampledUnit> units = Units(30, 0, 1, 3);
  const Interval once = BootstrapMean(units, {.seed = 5});
  const Interval again = BootstrapMean(units, {.seed = 5});
  const Interval other = BootstrapMean(units, {.seed = 6});
  EXPECT_EQ(once.low, again.low);
  EXPECT_EQ(once.high, again.high);
  EXPECT_NE(once.low, other.low);
}

TEST(BootstrapTest, NothingMeasuredIsZeroAndInfinityStaysInfinite) {
  EXPECT_EQ(BootstrapMean({}, {}).value, 0);
  EXPECT_EQ(BootstrapMean({}, {}).high, 0);
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(BootstrapMean(std::vector<ResampledUnit>{{kInfinite, 1}, {1, 1}}, {}).value, kInfinite);
}

TEST(BootstrapTest, AQuantileIsTheNearestRankOfAllSamples) {
  std::vector<std::vector<double>> units(10);
  for (int i = 0; i < 100; ++i) units[static_cast<std::size_t>(i % 10)].push_back(i + 1);
  const Interval interval = BootstrapQuantile(units, 0.99, {});
  EXPECT_EQ(interval.value, 99);
  EXPECT_LE(interval.low, 99);
  EXPECT_LE(interval.high, 100);
  EXPECT_GE(interval.low, 90);
  EXPECT_EQ(BootstrapQuantile(units, 1, {}).value, 100);
  EXPECT_EQ(BootstrapQuantile({}, 0.5, {}).value, 0);
}

}  // namespace
}  // namespace swiftkv
