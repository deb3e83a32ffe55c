// SPDX-License-Identifier: Apache-2.0
// Tests that drawn lengths have the stated means and spread, stay within bounds and repeat.
#include "tools/bench_lengths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace swiftkv {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

constexpr int kMany = 200000;

TEST(BenchLengthsTest, NamedDistributionsHaveTheirMeansAndSpread) {
  struct Expected {
    const char* name;
    double prompt;
    double output;
  };
  // The cut at 2,048 tokens takes about 1 % off the longer ones.
  for (const Expected& expected : {Expected{"sharegpt", 161, 338}, Expected{"alpaca", 19, 58}}) {
    const auto requests = DrawLengths(FindLengths(expected.name).value(), kMany, 7);
    double prompt = 0;
    double output = 0;
    double logs = 0;
    double squares = 0;
    for (const RequestLengths& request : requests) {
      prompt += request.prompt;
      output += request.output;
      logs += std::log(request.output);
      squares += std::log(request.output) * std::log(request.output);
    }
    EXPECT_NEAR(prompt / kMany, expected.prompt, 0.015 * expected.prompt) << expected.name;
    EXPECT_NEAR(output / kMany, expected.output, 0.015 * expected.output) << expected.name;
    const double mean = logs / kMany;
    EXPECT_NEAR(std::sqrt(squares / kMany - mean * mean), 0.8, 0.02) << expected.name;
  }
}

TEST(BenchLengthsTest, NoRequestIsEmptyOrLongerThanTheLimit) {
  LengthDistribution wild = {"wild", 900, 1500, 2.5};
  int longest = 0;
  for (const RequestLengths& request : DrawLengths(wild, kMany, 1)) {
    ASSERT_GE(request.prompt, 1);
    ASSERT_GE(request.output, 1);
    ASSERT_LE(request.total(), kMostRequestTokens);
    longest = std::max(longest, request.total());
  }
  EXPECT_EQ(longest, kMostRequestTokens);
}

TEST(BenchLengthsTest, TheSeedDecidesEveryLength) {
  const LengthDistribution sharegpt = FindLengths("sharegpt").value();
  EXPECT_EQ(DrawLengths(sharegpt, 1000, 3), DrawLengths(sharegpt, 1000, 3));
  EXPECT_NE(DrawLengths(sharegpt, 1000, 3), DrawLengths(sharegpt, 1000, 4));
  auto longer = DrawLengths(sharegpt, 2000, 3);
  longer.resize(1000);
  EXPECT_EQ(longer, DrawLengths(sharegpt, 1000, 3)) << "more requests change the first ones";
}

TEST(BenchLengthsTest, FixedLengthsAreHalfPrompt) {
  for (const RequestLengths& request : DrawLengths(FindLengths("fixed:100").value(), 50, 1)) {
    EXPECT_EQ(request, (RequestLengths{50, 50}));
  }
  EXPECT_EQ(DrawLengths(FindLengths("fixed:3").value(), 1, 1)[0], (RequestLengths{2, 1}));
  EXPECT_EQ(DrawLengths(FindLengths("fixed:2048").value(), 1, 1)[0].total(), 2048);
}

TEST(BenchLengthsTest, UnknownNamesAreRefusedWithTheList) {
  for (const char* name : {"", "ShareGPT", "fixed", "fixed:", "fixed:1", "fixed:2049", "fixed:1e3",
                           "fixed:-5", "fixed:10 "}) {
    const auto found = FindLengths(name);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(found.status().message(), HasSubstr("sharegpt, alpaca, fixed:N"));
    EXPECT_THAT(found.status().message(), EndsWith(std::string("not: ") + name));
  }
}

}  // namespace
}  // namespace swiftkv
