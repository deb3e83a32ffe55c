// SPDX-License-Identifier: Apache-2.0
// Tests that requests pass through a full batch in order, token by token.
#include "tools/bench_waste_schedule.h"

#include <gtest/gtest.h>

namespace swiftkv {
namespace {

TEST(SaturatedScheduleTest, ARequestStoresItsPromptThenATokenAStepAndLeavesItsSeatToTheNext) {
  const std::vector<RequestLengths> requests = {{5, 2}, {1, 1}, {7, 1}, {2, 9}, {3, 3}};
  SaturatedSchedule schedule(requests, 2);
  struct Expected {
    int tokens[2];
    bool is_started[2];
  };
  const std::vector<Expected> steps = {{{5, 1}, {true, true}},   {{6, 2}, {false, false}},
                                       {{7, 7}, {false, true}},  {{2, 8}, {true, false}},
                                       {{3, 3}, {false, true}},  {{4, 4}, {false, false}},
                                       {{5, 5}, {false, false}}, {{6, 6}, {false, false}}};
  for (std::size_t step = 0; step < steps.size(); ++step) {
    ASSERT_TRUE(schedule.Step()) << step;
    for (std::size_t seat = 0; seat < 2; ++seat) {
      SCOPED_TRACE(testing::Message() << "step " << step << ", seat " << seat);
      EXPECT_EQ(schedule.seats()[seat].tokens, steps[step].tokens[seat]);
      EXPECT_EQ(schedule.seats()[seat].is_started, steps[step].is_started[seat]);
      EXPECT_EQ(schedule.seats()[seat].new_tokens,
                steps[step].is_started[seat] ? steps[step].tokens[seat] : 1);
    }
  }
  EXPECT_FALSE(schedule.Step()) << "the queue cannot fill the batch any more";
  EXPECT_EQ(schedule.seats()[1].tokens, 6);
}

TEST(SaturatedScheduleTest, TooFewRequestsNeverMakeAStep) {
  const std::vector<RequestLengths> requests = {{5, 2}};
  SaturatedSchedule schedule(requests, 2);
  EXPECT_FALSE(schedule.Step());
  EXPECT_EQ(schedule.progress(), 0);
}

}  // namespace
}  // namespace swiftkv
