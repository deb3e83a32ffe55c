// SPDX-License-Identifier: Apache-2.0
// Compares statistics gathered in chunks with two plain passes over all queries.
#include "policy/query_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace swiftkv {
namespace {

constexpr int kHeads = 3;
constexpr int kDim = 10;
constexpr std::size_t kStride = kHeads * kDim + 7;

// Rows of kStride floats whose heads have their own means and correlations.
std::vector<float> Queries(int count, double mean) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  std::vector<float> rows(static_cast<std::size_t>(count) * kStride);
  for (std::size_t r = 0; r < static_cast<std::size_t>(count); ++r) {
    for (std::size_t h = 0; h < kHeads; ++h) {
      const double common = normal(random);
      for (std::size_t i = 0; i < kDim; ++i) {
        const double own = normal(random);
        rows[r * kStride + h * kDim + i] = static_cast<float>(
            mean * (1 + static_cast<double>(h)) + common + own * static_cast<double>(i));
      }
    }
  }
  return rows;
}

struct Moments {
  std::vector<double> mean = std::vector<double>(kHeads * kDim);
  std::vector<double> covariance = std::vector<double>(kHeads * kDim * kDim);
};

Moments TwoPasses(const std::vector<float>& rows) {
  const std::size_t count = rows.size() / kStride;
  const auto n = static_cast<double>(count);
  Moments moments;
  for (std::size_t r = 0; r < count; ++r) {
    for (std::size_t c = 0; c < kHeads * kDim; ++c) moments.mean[c] += rows[r * kStride + c] / n;
  }
  for (std::size_t r = 0; r < count; ++r) {
    for (std::size_t c = 0; c < kHeads * kDim; ++c) {
      for (std::size_t j = 0; j < kDim; ++j) {
        const std::size_t other = c / kDim * kDim + j;
        moments.covariance[c * kDim + j] += (rows[r * kStride + c] - moments.mean[c]) *
                                            (rows[r * kStride + other] - moments.mean[other]) / n;
      }
    }
  }
  return moments;
}

// Adds rows [first, end).
void Add(const std::vector<float>& rows, int first, int end, QueryStatistics* statistics) {
  statistics->Add({.rows = rows.data() + static_cast<std::size_t>(first) * kStride,
                   .row_stride = kStride,
                   .num_rows = end - first,
                   .first_head = 0,
                   .end_head = kHeads});
}

void ExpectMoments(const QueryStatistics& statistics, const Moments& expected, double tolerance) {
  std::vector<float> mean(kHeads * kDim);
  std::vector<float> covariance(kHeads * kDim * kDim);
  statistics.CopyMean(mean);
  statistics.CopyCovariance(covariance);
  for (std::size_t i = 0; i < mean.size(); ++i) {
    ASSERT_NEAR(mean[i], expected.mean[i], tolerance * (1 + std::abs(expected.mean[i])));
  }
  for (std::size_t i = 0; i < covariance.size(); ++i) {
    ASSERT_NEAR(covariance[i], expected.covariance[i], 100 * tolerance) << i;
  }
}

TEST(QueryStatisticsTest, AnyChunksGiveWhatTwoPassesGive) {
  const std::vector<float> rows = Queries(700, 3);
  const Moments expected = TwoPasses(rows);
  for (const int chunk : {1, 7, 64, 65, 700}) {
    QueryStatistics statistics(kHeads, kDim);
    for (int first = 0; first < 700; first += chunk) {
      Add(rows, first, std::min(700, first + chunk), &statistics);
    }
    EXPECT_EQ(statistics.count(0), 700);
    EXPECT_EQ(statistics.count(kHeads - 1), 700);
    ExpectMoments(statistics, expected, 1e-5);
  }
}

TEST(QueryStatisticsTest, PartsMergeIntoTheWholeInAnyOrder) {
  const std::vector<float> rows = Queries(500, -2);
  QueryStatistics parts[] = {{kHeads, kDim}, {kHeads, kDim}, {kHeads, kDim}};
  Add(rows, 0, 3, &parts[0]);
  Add(rows, 3, 400, &parts[1]);
  Add(rows, 400, 500, &parts[2]);
  QueryStatistics merged(kHeads, kDim);
  for (const int part : {2, 0, 1}) merged.Merge(parts[part]);
  ExpectMoments(merged, TwoPasses(rows), 1e-5);
}

TEST(QueryStatisticsTest, ALargeMeanCostsNoDigits) {
  const std::vector<float> rows = Queries(640, 1e4);
  QueryStatistics statistics(kHeads, kDim);
  for (int first = 0; first < 640; first += 10) Add(rows, first, first + 10, &statistics);
  // Rows of this size are rounded to 1e-3 by themselves; naive sums of squares would be off by 1.
  ExpectMoments(statistics, TwoPasses(rows), 2e-5);
}

TEST(QueryStatisticsTest, HeadsAreAddedByThemselves) {
  const std::vector<float> rows = Queries(90, 1);
  QueryStatistics statistics(kHeads, kDim);
  for (const int head : {2, 0, 1}) {
    statistics.Add({.rows = rows.data(),
                    .row_stride = kStride,
                    .num_rows = 90,
                    .first_head = head,
                    .end_head = head + 1});
  }
  ExpectMoments(statistics, TwoPasses(rows), 1e-5);
}

TEST(QueryStatisticsTest, NoQueriesAndOneQueryHaveNoSpread) {
  QueryStatistics statistics(kHeads, kDim);
  ExpectMoments(statistics, {}, 0);
  statistics.Merge(QueryStatistics(kHeads, kDim));
  ExpectMoments(statistics, {}, 0);
  const std::vector<float> rows = Queries(1, 2);
  Add(rows, 0, 1, &statistics);
  ExpectMoments(statistics, TwoPasses(rows), 1e-7);
}

}  // namespace
}  // namespace swiftkv
