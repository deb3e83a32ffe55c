// SPDX-License-Identifier: Apache-2.0
// Tests how passes are run, taken in turn and counted; never how long they take.
#include "tools/bench_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

namespace swiftkv {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;

TEST(BenchPassTest, TheMedianOfAnEvenCountIsTheMeanOfTheMiddle) {
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({9, 1, 2}), 2);
  EXPECT_EQ(Median({8, 1, 2, 4}), 3);
}

TEST(BenchPassTest, RatiosAreTakenRoundByRound) {
  const std::vector<double> stream = {1, 2, 30};
  const std::vector<double> kernel = {2, 8, 40};
  EXPECT_EQ(MedianRatio(stream, kernel), 0.5);  // the ratio of the medians would be .25
}

TEST(BenchPassTest, APassIsDisturbedWhereItsThreadsLackMoreThanThreePercentOfItsTime) {
  EXPECT_TRUE(IsDisturbed({.seconds = 1, .busy = 1.93}, 2));
  EXPECT_FALSE(IsDisturbed({.seconds = 1, .busy = 1.95}, 2));
  EXPECT_FALSE(IsDisturbed({.seconds = 1, .busy = 0.98}, 1));
  EXPECT_TRUE(IsDisturbed({.seconds = 1, .busy = 2}, 4));
}

TEST(BenchPassTest, EveryThreadOfTheTeamRunsThePassOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadTeam team(threads);
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(threads));
    const PassTime time = TimePass(
        [&](const PassThread& thread) {
          EXPECT_EQ(thread.num_threads, threads);
          ++calls[static_cast<std::size_t>(thread.thread)];
        },
        &team);
    for (const std::atomic<int>& count : calls) EXPECT_EQ(count, 1);
    EXPECT_GE(time.seconds, 0);
  }
}

TEST(BenchPassTest, NoThreadPassesTheBarrierBeforeAllHaveCome) {
  constexpr int kThreads = 3;
  constexpr int kPhases = 200;
  ThreadTeam team(kThreads);
  std::atomic<int> arrived{0};
  std::atomic<int> early{0};
  TimePass(
      [&](const PassThread& thread) {
        for (int phase = 1; phase <= kPhases; ++phase) {
          ++arrived;
          thread.barrier->Wait();
          if (arrived < phase * kThreads) ++early;
          thread.barrier->Wait();
        }
      },
      &team);
  EXPECT_EQ(early, 0);
  EXPECT_EQ(arrived, kThreads * kPhases);
}

TEST(BenchPassTest, RoundsTakeThePassesInTurn) {
  ThreadTeam team(1);
  std::string order;
  const Pass passes[] = {[&](const PassThread&) { order += 'a'; },
                         [&](const PassThread&) { order += 'b'; }};
  const RoundTimes times = TimeRounds(passes, {.rounds = 4}, &team);
  EXPECT_THAT(times.seconds, ElementsAre(SizeIs(4), SizeIs(4)));
  // A repeated pass stands in its own place.
  std::string once;
  for (const char pass : order) {
    if (once.empty() || once.back() != pass) once += pass;
  }
  EXPECT_EQ(once, "abababab");
  EXPECT_EQ(order.size(), 8U + static_cast<std::size_t>(times.rejected));
}

TEST(BenchPassTest, SlowPassesDoFewerRoundsButNeverLessThanTheLeast) {
  ThreadTeam team(1);
  const Pass passes[] = {[](const PassThread&) {}};
  const RoundOptions spent = {.rounds = 50, .least_rounds = 3, .budget_seconds = -1};
  EXPECT_THAT(TimeRounds(passes, spent, &team).seconds, Each(SizeIs(3)));
  const RoundOptions few = {.rounds = 2, .least_rounds = 3, .budget_seconds = -1};
  EXPECT_THAT(TimeRounds(passes, few, &team).seconds, Each(SizeIs(2)));
}

}  // namespace
}  // namespace swiftkv
