// SPDX-License-Identifier: Apache-2.0
// Checks the kernel's figures on memory that the test maps, and control groups on made-up trees.
#include "base/process_memory.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <filesystem>
#include <fstream>

namespace swiftkv {
namespace {

constexpr std::size_t kOsPage = 4096;

TEST(ProcessMemoryTest, ResidentBytesCountsTouchedPagesOfTheRangeOnly) {
  constexpr std::size_t kPages = 64;
  char* const all = static_cast<char*>(mmap(nullptr, (kPages + 2) * kOsPage, PROT_NONE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(all, MAP_FAILED);
  char* const inner = all + kOsPage;  // guard pages keep neighbours from merging
  ASSERT_EQ(mprotect(inner, kPages * kOsPage, PROT_READ | PROT_WRITE), 0);
  ASSERT_EQ(madvise(inner, kPages * kOsPage, MADV_NOHUGEPAGE), 0);
  EXPECT_EQ(*ResidentBytes(inner, kPages * kOsPage), 0U);
  for (std::size_t page : {0, 3, 4, 63}) inner[page * kOsPage + 5] = 1;
  EXPECT_EQ(*ResidentBytes(inner, kPages * kOsPage), 4 * kOsPage);
  ASSERT_EQ(madvise(inner + 3 * kOsPage, 2 * kOsPage, MADV_DONTNEED), 0);
  EXPECT_EQ(*ResidentBytes(inner, kPages * kOsPage), 2 * kOsPage);
  munmap(all, (kPages + 2) * kOsPage);
}

TEST(ProcessMemoryTest, TheProcessNeverExceedsItsOwnPeak) {
  const auto now = ProcessResidentBytes();
  const auto peak = ProcessPeakResidentBytes();
  ASSERT_TRUE(now.ok() && peak.ok());
  EXPECT_GT(*now, 0U);
  EXPECT_GE(*peak, *now);
  const auto available = AvailableBytes();
  ASSERT_TRUE(available.ok());
  EXPECT_GT(*available, 0U);
}

// A made-up root with proc/ and sys/ that a test fills.
class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/swiftkv_cgroup_XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_ + "/" + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }

  std::string root_;
};

TEST_F(CgroupTest, Version2TakesTheTightestGroupOnTheWayUpWithoutDroppableFilePages) {
  Write("proc/self/cgroup", "0::/outer/inner\n");
  Write("sys/fs/cgroup/outer/memory.max", "1000000\n");
  Write("sys/fs/cgroup/outer/memory.current", "900000\n");
  Write("sys/fs/cgroup/outer/memory.stat", "anon 1\ninactive_file 300000\nactive_file 9\n");
  Write("sys/fs/cgroup/outer/inner/memory.max", "500000\n");
  Write("sys/fs/cgroup/outer/inner/memory.current", "40000\n");
  const auto group = ReadCgroupMemory(root_);
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->limit_bytes, 1000000U);
  EXPECT_EQ(group->used_bytes, 600000U);
}

TEST_F(CgroupTest, Version1IsReadWhereTheMemoryControllerIsListed) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n");
  Write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "777000\n");
  Write("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "111000\n");
  Write("sys/fs/cgroup/memory/a/b/memory.stat", "inactive_file 5\ntotal_inactive_file 11000\n");
  const auto group = ReadCgroupMemory(root_);
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->limit_bytes, 777000U);
  EXPECT_EQ(group->used_bytes, 100000U);
}

TEST_F(CgroupTest, AContainerWhosePathIsNotVisibleFallsBackToItsRootGroup) {
  Write("proc/self/cgroup", "0::/somewhere/on/the/host\n");
  Write("sys/fs/cgroup/memory.max", "123456\n");
  Write("sys/fs/cgroup/memory.current", "456\n");
  const auto group = ReadCgroupMemory(root_);
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->limit_bytes, 123456U);
}

TEST_F(CgroupTest, NoLimitIsReportedWhereNoneIsSet) {
  EXPECT_FALSE(ReadCgroupMemory(root_).has_value());
  Write("proc/self/cgroup", "4:memory:/\n0::/\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
  Write("sys/fs/cgroup/memory.max", "max\n");
  Write("sys/fs/cgroup/memory.current", "1\n");
  EXPECT_FALSE(ReadCgroupMemory(root_).has_value());
}

}  // namespace
}  // namespace swiftkv
