// SPDX-License-Identifier: Apache-2.0
// Reads control groups from made-up trees of both versions, nested, cut off, and hostile.
#include "base/cgroup_memory.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace swiftkv {
namespace {

constexpr std::uint64_t kUnlimited = CgroupMemory::kUnlimited;

// A made-up root with proc/ and sys/ that a test fills.
class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/swiftkv_cgroup_XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path full = root_ + "/" + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }

  // A group of version 2 at `folder` below the root.
  void WriteGroup(const std::string& folder, const std::string& max,
                  const std::string& current) const {
    Write(folder + "/memory.max", max + "\n");
    Write(folder + "/memory.current", current + "\n");
  }

  std::string root_;
};

TEST_F(CgroupTest, Version2TakesTheTightestGroupOnTheWayUpWithoutDroppableFilePages) {
  Write("proc/self/cgroup", "0::/outer/inner\n");
  WriteGroup("sys/fs/cgroup/outer", "1000000", "900000");
  Write("sys/fs/cgroup/outer/memory.stat", "anon 1\ninactive_file 300000\nactive_file 200000\n");
  WriteGroup("sys/fs/cgroup/outer/inner", "700000", "40000");
  const CgroupView view = ReadCgroups(root_);
  ASSERT_TRUE(view.tightest.has_value());
  EXPECT_EQ(view.tightest->path, "/outer");
  EXPECT_EQ(view.tightest->limit_bytes, 1000000U);
  EXPECT_EQ(view.tightest->current_bytes, 900000U);
  EXPECT_EQ(view.tightest->used_bytes, 400000U);
  EXPECT_EQ(view.tightest->bytes_left(), 600000U);
  EXPECT_EQ(view.own->path, "/outer/inner");
  EXPECT_EQ(view.own->bytes_left(), 660000U);
}

TEST_F(CgroupTest, MemoryHighLimitsLikeMaxBecauseTheKernelSlowsDownWhoPassesIt) {
  Write("proc/self/cgroup", "0::/a\n");
  WriteGroup("sys/fs/cgroup/a", "max", "1000");
  Write("sys/fs/cgroup/a/memory.high", "5000\n");
  Write("sys/fs/cgroup/a/memory.swap.max", "max\n");
  Write("sys/fs/cgroup/a/memory.swap.current", "77\n");
  const auto group = ReadCgroupMemory(root_);
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->limit_bytes, 5000U);
  EXPECT_EQ(group->max_bytes, kUnlimited);
  EXPECT_EQ(group->high_bytes, 5000U);
  EXPECT_EQ(group->bytes_left(), 4000U);
  EXPECT_EQ(group->swap_bytes, 77U);
  EXPECT_EQ(group->swap_max_bytes, kUnlimited);
}

TEST_F(CgroupTest, Version1IsReadWhereTheMemoryControllerIsListed) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n");
  const std::string group_folder = "sys/fs/cgroup/memory/a/b/";
  Write(group_folder + "memory.limit_in_bytes", "777000\n");
  Write(group_folder + "memory.usage_in_bytes", "111000\n");
  Write(group_folder + "memory.memsw.limit_in_bytes", "900000\n");
  Write(group_folder + "memory.memsw.usage_in_bytes", "112000\n");
  Write(group_folder + "memory.stat",
        "inactive_file 5\ntotal_inactive_file 10000\ntotal_active_file 1000\n");
  const auto group = ReadCgroupMemory(root_);
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->version, 1);
  EXPECT_EQ(group->limit_bytes, 777000U);
  EXPECT_EQ(group->used_bytes, 100000U);
  EXPECT_EQ(group->swap_bytes, 1000U);
  EXPECT_EQ(group->swap_max_bytes, 123000U);
}

TEST_F(CgroupTest, Version1TellsLimitsOfGroupsThatCannotBeSeen) {
  Write("proc/self/cgroup", "4:memory:/\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  Write("sys/fs/cgroup/memory/memory.stat", "hierarchical_memory_limit 50000\n");
  const auto group = ReadCgroupMemory(root_);
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->limit_bytes, 50000U);
}

TEST_F(CgroupTest, AContainerWhosePathIsNotVisibleFallsBackToItsRootGroup) {
  for (const char* path : {"/somewhere/on/the/host", "/..", "/../../a"}) {
    Write("proc/self/cgroup", std::string("0::") + path + "\n");
    WriteGroup("sys/fs/cgroup", "123456", "456");
    WriteGroup("sys/fs", "1", "1");  // above the mount: no group of anybody's
    const auto group = ReadCgroupMemory(root_);
    ASSERT_TRUE(group.has_value()) << path;
    EXPECT_EQ(group->limit_bytes, 123456U) << path;
    EXPECT_EQ(group->path, "/");
  }
}

TEST_F(CgroupTest, MountsSayWhereGroupsLieAndWhatPartOfTheTreeIsShown) {
  Write("proc/self/cgroup", "4:memory:/docker/abc/task\n0::/docker/abc/task\n");
  Write("proc/self/mountinfo",
        "22 1 0:5 / /proc rw - proc proc rw\n"
        "30 22 0:26 /docker/abc /mnt/my\\040groups ro,nosuid shared:9 master:1 - cgroup cgroup "
        "rw,memory\n"
        "31 22 0:27 / /mnt/cpu ro - cgroup cgroup rw,cpu,cpuacct\n"
        "32 22 0:28 / /mnt/unified ro - cgroup2 cgroup2 rw\n");
  Write("mnt/my groups/task/memory.limit_in_bytes", "4000\n");
  Write("mnt/my groups/task/memory.usage_in_bytes", "1000\n");
  Write("mnt/my groups/memory.limit_in_bytes", "2000\n");
  Write("mnt/my groups/memory.usage_in_bytes", "1500\n");
  const CgroupView view = ReadCgroups(root_);
  ASSERT_TRUE(view.tightest.has_value());
  EXPECT_EQ(view.own->path, "/task");
  EXPECT_EQ(view.own->limit_bytes, 4000U);
  EXPECT_EQ(view.tightest->path, "/");
  EXPECT_EQ(view.tightest->bytes_left(), 500U);
}

TEST_F(CgroupTest, OfTwoHierarchiesTheOneThatLeavesLessCounts) {
  Write("proc/self/cgroup", "4:memory:/v1\n0::/v2\n");
  Write("sys/fs/cgroup/memory/v1/memory.limit_in_bytes", "5000\n");
  Write("sys/fs/cgroup/memory/v1/memory.usage_in_bytes", "1000\n");
  WriteGroup("sys/fs/cgroup/v2", "3000", "1000");
  EXPECT_EQ(ReadCgroupMemory(root_)->version, 2);
  WriteGroup("sys/fs/cgroup/v2", "9000", "1000");
  EXPECT_EQ(ReadCgroupMemory(root_)->version, 1);
}

TEST_F(CgroupTest, NoLimitIsReportedWhereNoneIsSet) {
  EXPECT_FALSE(ReadCgroupMemory(root_).has_value());
  EXPECT_FALSE(ReadCgroups(root_).own.has_value());
  Write("proc/self/cgroup", "4:memory:/\n0::/\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
  WriteGroup("sys/fs/cgroup", "max", "1");
  EXPECT_FALSE(ReadCgroupMemory(root_).has_value());
  EXPECT_EQ(ReadCgroups(root_).own->limit_bytes, kUnlimited);
}

TEST_F(CgroupTest, AnotherProcessIsReadFromItsOwnFolder) {
  Write("proc/self/cgroup", "0::/mine\n");
  Write("proc/42/cgroup", "0::/other\n");
  WriteGroup("sys/fs/cgroup/mine", "100", "1");
  WriteGroup("sys/fs/cgroup/other", "200", "1");
  EXPECT_EQ(ReadCgroups(root_, "42").tightest->limit_bytes, 200U);
}

TEST_F(CgroupTest, AUsageAboveTheLimitLeavesNothing) {
  Write("proc/self/cgroup", "0::/a\n");
  WriteGroup("sys/fs/cgroup/a", "100", "300");
  Write("sys/fs/cgroup/a/memory.stat", "inactive_file 900\nactive_file 18446744073709551615\n");
  EXPECT_EQ(ReadCgroupMemory(root_)->used_bytes, 0U);
  Write("sys/fs/cgroup/a/memory.stat", "");
  EXPECT_EQ(ReadCgroupMemory(root_)->bytes_left(), 0U);
}

TEST_F(CgroupTest, NonsenseLimitsNothingAndStopsNobody) {
  constexpr char kZeros[] = "0::/a\0\0\n:::\n::\n0\n\n0:::\n0::relative\n";
  const std::string zeros(kZeros, sizeof(kZeros) - 1);
  const std::string slashes = "0::" + std::string(100000, '/') + "\n";
  const std::string deep = "0::" + [] {
    std::string path;
    for (int i = 0; i < 1000; ++i) path += "/x";
    return path;
  }() + "\n";
  WriteGroup("sys/fs/cgroup/a", "-5", "12");
  for (const std::string& groups : {zeros, slashes, deep, std::string(1 << 20, ':'),
                                    std::string("0::/a\n0::/a\n4:memory:/a")}) {
    Write("proc/self/cgroup", groups);
    EXPECT_FALSE(ReadCgroupMemory(root_).has_value());
  }
  for (const char* number : {"", "x", "99999999999999999999999", "1e9", "0x10", "\n\n7"}) {
    WriteGroup("sys/fs/cgroup/a", number, number);
    Write("proc/self/cgroup", "0::/a\n");
    const auto group = ReadCgroupMemory(root_);
    if (group) {
      EXPECT_LE(group->limit_bytes, 1U) << number;  // the digits before what is none
    }
  }
  std::filesystem::remove(root_ + "/sys/fs/cgroup/a/memory.max");
  std::filesystem::create_directory(root_ + "/sys/fs/cgroup/a/memory.max");
  EXPECT_FALSE(ReadCgroupMemory(root_).has_value());
  for (const char* mounts :
       {"-", "1 2 3 4 5 6 -", "\\", "1 1 1 / /x\\04 - cgroup2", "1 1 1 \\777"}) {
    Write("proc/self/mountinfo", mounts);
    EXPECT_FALSE(ReadCgroupMemory(root_).has_value()) << mounts;
  }
}

}  // namespace
}  // namespace swiftkv
