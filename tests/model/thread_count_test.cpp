// SPDX-License-Identifier: Apache-2.0
// Tests the count of usable cores against control groups of both versions.
#include "model/thread_count.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/temp_directory.h"
#include "support/tiny_gguf.h"

namespace swiftkv {
namespace {

class AvailableCoresTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = directory_.path() / path;
    std::filesystem::create_directories(full.parent_path());
    ASSERT_TRUE(WriteBytes(full, text).ok());
  }

  int Cores() const { return AvailableCores(directory_.path().string() + "/"); }

  TempDirectory directory_;
  const int all_ = AvailableCores("/nowhere/");  // what the affinity mask grants
};

TEST_F(AvailableCoresTest, WithoutGroupsTheAffinityMaskDecides) {
  EXPECT_GE(all_, 1);
  EXPECT_EQ(Cores(), all_);
}

TEST_F(AvailableCoresTest, AnUnlimitedGroupTakesNothingAway) {
  Write("proc/self/cgroup", "0::/user/job\n");
  Write("sys/fs/cgroup/user/job/cpu.max", "max 100000\n");
  EXPECT_EQ(Cores(), all_);
}

TEST_F(AvailableCoresTest, AQuotaIsRoundedUpAndNeverBelowOne) {
  Write("proc/self/cgroup", "0::/job\n");
  Write("sys/fs/cgroup/job/cpu.max", "50000 100000\n");
  EXPECT_EQ(Cores(), 1);
  Write("sys/fs/cgroup/job/cpu.max", "110000 100000\n");
  EXPECT_EQ(Cores(), std::min(all_, 2));
}

TEST_F(AvailableCoresTest, ThePathsOfParentsCountToo) {
  Write("proc/self/cgroup", "0::/outer/inner\n");
  Write("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
  Write("sys/fs/cgroup/outer/cpu.max", "100000 100000\n");
  EXPECT_EQ(Cores(), 1);
}

TEST_F(AvailableCoresTest, GroupsOfTheFirstVersionAreRead) {
  Write("proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n");
  Write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000\n");
  Write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Cores(), 1);
  Write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(Cores(), all_);
}

}  // namespace
}  // namespace swiftkv
