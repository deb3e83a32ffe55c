// SPDX-License-Identifier: Apache-2.0
// Checks the order in which sink_recent gives tokens up.
#include "policy/sink_recent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

namespace swiftkv {
namespace {

std::vector<float> Scores(const std::vector<std::int32_t>& positions,
                          const PolicyParameters& parameters) {
  ScoreInputs inputs;
  inputs.kv_heads = 2;
  inputs.num_tokens = static_cast<int>(positions.size());
  inputs.positions = positions;
  inputs.next_position = positions.back() + 1;
  std::vector<float> scores(2 * positions.size());
  kSinkRecentPolicy.Score(inputs, parameters, scores);
  return scores;
}

TEST(SinkRecentTest, SinksOutliveTheNewestTokenAndNewerOutlivesOlder) {
  std::vector<std::int32_t> positions(100);
  std::iota(positions.begin(), positions.end(), 0);
  const std::vector<float> scores = Scores(positions, {});
  for (std::size_t t = 0; t < 4; ++t) EXPECT_GT(scores[t], scores[99]) << t;
  EXPECT_LT(scores[4], scores[5]);
  for (std::size_t t = 5; t < 100; ++t) EXPECT_LT(scores[t - 1], scores[t]) << t;
  for (std::size_t t = 0; t < 100; ++t) EXPECT_EQ(scores[t], scores[100 + t]) << "head 1";
}

TEST(SinkRecentTest, SinksAreCountedByOriginalPositionNotByIndex) {
  const std::vector<float> scores = Scores({1, 7, 900, 1000}, {{"sinks", 8}});
  EXPECT_EQ(scores[0], scores[1]);
  EXPECT_GT(scores[1], scores[3]);
  EXPECT_GT(scores[3], scores[2]);
  const std::vector<float> none = Scores({0, 7, 900, 1000}, {{"sinks", 0}});
  EXPECT_LT(none[0], none[1]);
}

TEST(SinkRecentTest, NeighboursStayApartFarOut) {
  const std::vector<float> scores = Scores({4, 16000000, 16000001, 16000002}, {});
  EXPECT_LT(scores[0], scores[1]);
  EXPECT_LT(scores[1], scores[2]);
  EXPECT_LT(scores[2], scores[3]);
}

TEST(SinkRecentTest, BadParametersAreNamedWithWhatWouldBeAccepted) {
  for (double bad : {-1.0, 1.5, 65537.0, std::numeric_limits<double>::quiet_NaN(),
                     std::numeric_limits<double>::infinity()}) {
    const Status status = kSinkRecentPolicy.Validate({{"sinks", bad}});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(status.message(), testing::HasSubstr("whole number from 0 to 65536"));
  }
  EXPECT_TRUE(kSinkRecentPolicy.Validate({{"sinks", 128}}).ok());
}

}  // namespace
}  // namespace swiftkv
