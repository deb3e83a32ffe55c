// SPDX-License-Identifier: Apache-2.0
// Checks that every thread of a team runs each call exactly once and is waited for.
#include "base/thread_team.h"

#include <gtest/gtest.h>

#include <set>

namespace swiftkv {
namespace {

TEST(ThreadTeamTest, EveryThreadRunsOnceAndItsWritesAreSeenByTheCaller) {
  for (int num_threads : {1, 2, 5}) {
    ThreadTeam team(num_threads);
    EXPECT_EQ(team.num_threads(), num_threads);
    std::vector<int> calls(static_cast<std::size_t>(num_threads), 0);
    constexpr int kRuns = 200;
    for (int run = 1; run <= kRuns; ++run) {
      team.Run([&](int thread, int size) {
        EXPECT_EQ(size, num_threads);
        ++calls[static_cast<std::size_t>(thread)];
      });
      for (int count : calls) ASSERT_EQ(count, run);
    }
  }
}

TEST(ThreadTeamTest, ThreadZeroIsTheCallerAndTheOthersAreNot) {
  ThreadTeam team(3);
  std::vector<std::thread::id> ids(3);
  team.Run(
      [&](int thread, int) { ids[static_cast<std::size_t>(thread)] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_EQ(std::set<std::thread::id>(ids.begin(), ids.end()).size(), 3U);
}

TEST(ThreadTeamTest, ATeamThatNeverRanEndsCleanly) { ThreadTeam team(4); }

}  // namespace
}  // namespace swiftkv
