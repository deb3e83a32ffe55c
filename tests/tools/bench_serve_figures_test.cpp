// SPDX-License-Identifier: Apache-2.0
// Tests the figures of loads against plain restatements.
#include "tools/bench_serve_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace swiftkv {
namespace {

using testing::HasSubstr;

constexpr double kTolerance = 1e-9;

ServeRecord Completed(double start, double ttft, const std::vector<double>& itls) {
  ServeRecord record;
  record.start = start;
  record.ttft = ttft;
  record.e2el = ttft;
  record.itls = itls;
  record.token_times = {start + ttft};
  for (const double itl : itls) {
    record.e2el += itl;
    record.token_times.push_back(start + record.e2el);
  }
  record.end = start + record.e2el;
  record.prompt_tokens = 100;
  record.output_tokens = static_cast<int>(itls.size()) + 1;
  record.cached_tokens = 64;
  return record;
}

// Where p % of the way from the first to the last value lies, step by step.
double SlowPercentile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  double left = p / 100 * static_cast<double>(values.size() - 1);
  std::size_t i = 0;
  for (; left >= 1; left -= 1) ++i;
  return left == 0 ? values[i] : values[i] * (1 - left) + values[i + 1] * left;
}

TEST(BenchServeFiguresTest, PercentilesInterpolateBetweenRanks) {
  EXPECT_EQ(Percentile({}, 99), 0);
  EXPECT_EQ(Percentile({5}, 99), 5);
  EXPECT_EQ(Percentile({1, 2, 3, 4}, 50), 2.5);
  EXPECT_EQ(Percentile({1, 2, 3, 4}, 0), 1);
  EXPECT_EQ(Percentile({1, 2, 3, 4}, 100), 4);
  std::mt19937 random(1);
  for (int count = 1; count < 40; ++count) {
    std::vector<double> values;
    for (int i = 0; i < count; ++i) values.push_back(random() % 1000);
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    for (const double p : {0.0, 12.5, 50.0, 90.0, 99.0, 100.0}) {
      EXPECT_NEAR(Percentile(sorted, p), SlowPercentile(values, p), 1e-6);
    }
  }
}

TEST(BenchServeFiguresTest, ASpreadIsInMillisecondsAndOfThePopulation) {
  const ServeSpread spread = SpreadOf({0.004, 0.002, 0.006});
  EXPECT_NEAR(spread.mean, 4, kTolerance);
  EXPECT_NEAR(spread.median, 4, kTolerance);
  EXPECT_NEAR(spread.std, std::sqrt(8.0 / 3), kTolerance);
  EXPECT_NEAR(spread.p90, 5.6, kTolerance);
  EXPECT_NEAR(spread.p99, 5.96, kTolerance);
  EXPECT_EQ(SpreadOf({}).mean, 0);
}

TEST(BenchServeFiguresTest, TimePerTokenLeavesTheFirstOut) {
  EXPECT_NEAR(Completed(0, 1, {0.1, 0.3}).tpot().value(), 0.2, kTolerance);
  EXPECT_FALSE(Completed(0, 1, {}).tpot().has_value());
  ServeRecord two_at_once = Completed(0, 1, {0.1, 0.3});
  two_at_once.output_tokens = 5;
  EXPECT_NEAR(two_at_once.tpot().value(), 0.1, kTolerance);
}

TEST(BenchServeFiguresTest, SumsCountCompletedRequestsOnly) {
  std::vector<ServeRecord> records = {Completed(0, 0.5, {0.1, 0.1}), Completed(0.2, 0.3, {0.2})};
  ServeRecord failed = Completed(1, 0.1, {0.1});
  failed.failure = "http_429";
  failed.detail = "full";
  records.push_back(failed);
  ServeRecord left = Completed(1, 0.1, {0.1});
  left.disconnected = true;
  records.push_back(left);
  records[1].cached_tokens = -1;
  records[1].counted_by_events = true;
  records[0].retries = 2;
  const ServeFigures figures = SumUp(records, 2, {});
  EXPECT_EQ(figures.completed, 2);
  EXPECT_EQ(figures.failed, 1);
  EXPECT_EQ(figures.disconnected, 1);
  EXPECT_EQ(figures.retries, 2);
  EXPECT_EQ(figures.input_tokens, 200);
  EXPECT_EQ(figures.output_tokens, 5);
  EXPECT_EQ(figures.cached_tokens, 64);
  EXPECT_EQ(figures.told_cached, 1);
  EXPECT_EQ(figures.counted_by_events, 1);
  EXPECT_NEAR(figures.request_throughput, 1, kTolerance);
  EXPECT_NEAR(figures.output_throughput, 2.5, kTolerance);
  EXPECT_NEAR(figures.total_token_throughput, 102.5, kTolerance);
  EXPECT_NEAR(figures.ttft.mean, 400, kTolerance);
  EXPECT_NEAR(figures.e2el.mean, 600, kTolerance);
  EXPECT_NEAR(figures.itl.mean, 400.0 / 3, kTolerance);
  EXPECT_NEAR(figures.tpot.mean, 150, kTolerance);
  EXPECT_EQ(figures.failures.at("http_429"), 1);
  EXPECT_EQ(figures.examples.at("http_429"), "full");
  EXPECT_EQ(SumUp({}, 0, {}).request_throughput, 0);
}

TEST(BenchServeFiguresTest, PeaksAreOfTheBusiestMoments) {
  const std::vector<ServeRecord> records = {Completed(0, 0.5, {0.6, 0.1}),
                                            Completed(0.2, 0.1, {0.1}), Completed(0.4, 1, {})};
  const ServeFigures figures = SumUp(records, 2, {});
  EXPECT_EQ(figures.peak_requests, 2);  // the second ends when the third begins
  EXPECT_EQ(figures.peak_output_tokens, 3);
}

TEST(BenchServeFiguresTest, GoodputCountsRequestsWithinEveryLimit) {
  const std::vector<ServeRecord> records = {Completed(0, 0.5, {0.1}), Completed(0, 0.1, {0.4}),
                                            Completed(0, 0.1, {0.1}), Completed(0, 0.1, {})};
  const auto good = [&](const std::string& limits) {
    return SumUp(records, 1, ParseGoodput(limits).value()).request_goodput;
  };
  EXPECT_EQ(good(""), 4);
  EXPECT_EQ(good("ttft:100.5"), 3);
  EXPECT_EQ(good("tpot:100.5"), 3);
  EXPECT_EQ(good("e2el:300"), 2);
  EXPECT_EQ(good("ttft:100.5,tpot:100.5"), 2);
  EXPECT_EQ(good("ttft:100.5,tpot:100.5,e2el:150"), 1);
}

TEST(BenchServeFiguresTest, LimitsAreReadOrRefusedWhole) {
  const GoodputLimits limits = ParseGoodput("e2el:3000,ttft:0.5").value();
  EXPECT_EQ(limits.ttft, 0.5);
  EXPECT_EQ(limits.tpot, std::nullopt);
  EXPECT_EQ(limits.e2el, 3000);
  EXPECT_FALSE(ParseGoodput("").value().any());
  for (const char* text : {"ttft", "ttft:", "ttft:x", "ttft:-1", "ttft:0", "ttft:1,", ",ttft:1",
                           "itl:1", "ttft:1,ttft:2", "ttft:1 ", "ttft:inf", "ttft:nan"}) {
    const Result<GoodputLimits> parsed = ParseGoodput(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(parsed.status().message(), HasSubstr("ttft:MS"));
  }
}

}  // namespace
}  // namespace swiftkv
