// SPDX-License-Identifier: Apache-2.0
// Checks the kernel's figures on memory that the test maps, and on made-up files.
#include "base/process_memory.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "base/process_mappings.h"
#include "support/sanitizers.h"

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

TEST(ProcessMemoryTest, TouchedBytesCountsPagesOfAPartOfAMapping) {
  constexpr std::size_t kPages = 10000;
  void* const mapped = mmap(nullptr, kPages * kOsPage, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  char* const memory = static_cast<char*>(mapped);
  ASSERT_EQ(madvise(memory, kPages * kOsPage, MADV_NOHUGEPAGE), 0);
  EXPECT_EQ(TouchedBytes(memory, kPages * kOsPage), 0U);
  for (const std::size_t page : {0, 1, 4095, 4096, 9999}) memory[page * kOsPage] = 1;
  EXPECT_EQ(TouchedBytes(memory, kPages * kOsPage), 5 * kOsPage);
  EXPECT_EQ(TouchedBytes(memory + kOsPage + 100, 4095 * kOsPage), 3 * kOsPage);
  EXPECT_EQ(TouchedBytes(memory + 100, 0), 0U);
  EXPECT_EQ(TouchedBytes(memory + 100, 50), 50U);
  EXPECT_EQ(TouchedBytes(nullptr, 0), 0U);
  munmap(mapped, kPages * kOsPage);
}

TEST(ProcessMemoryTest, AProcessIsReadAsAWholeAndOneThatHasGoneIsNotFound) {
  const auto self = ReadProcessMemory("/proc/self");
  ASSERT_TRUE(self.ok()) << self.status().message();
  EXPECT_GT(self->resident_bytes, 0U);
  EXPECT_GE(self->peak_bytes, self->resident_bytes);
  EXPECT_FALSE(self->name.empty());
  EXPECT_EQ(ReadProcessMemory("/proc/999999999").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadProcessMemory("/proc/sys").status().code(), StatusCode::kNotFound);
}

TEST(ProcessMemoryTest, TheHeapCountsWhatIsGivenOut) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer brings its own allocator";
  const HeapMemory before = ReadHeapMemory();
  const std::vector<char> block(64 << 20);
  const HeapMemory after = ReadHeapMemory();
  EXPECT_GE(after.used_bytes, before.used_bytes + block.size());
  EXPECT_LT(after.used_bytes, before.used_bytes + block.size() + (1 << 20));
}

TEST(ProcessMemoryTest, TheMachineIsReadFromItsFiles) {
  char pattern[] = "/tmp/swiftkv_machine_XXXXXX";
  ASSERT_NE(mkdtemp(pattern), nullptr);
  const std::string root = pattern;
  EXPECT_EQ(ReadMachineMemory(root).total_bytes, 0U);
  std::filesystem::create_directories(root + "/proc");
  std::filesystem::create_directories(root + "/sys/kernel/mm/transparent_hugepage");
  std::ofstream(root + "/proc/meminfo") << "MemTotal:  24000 kB\nMemFree: 1 kB\nMemAvailable: 77 "
                                           "kB\nSwapTotal: 5 kB\nSwapFree: x kB\n";
  std::ofstream(root + "/sys/kernel/mm/transparent_hugepage/enabled") << "always [madvise] never\n";
  const MachineMemory machine = ReadMachineMemory(root);
  EXPECT_EQ(machine.total_bytes, 24000U << 10);
  EXPECT_EQ(machine.available_bytes, 77U << 10);
  EXPECT_EQ(machine.swap_total_bytes, 5U << 10);
  EXPECT_EQ(machine.swap_free_bytes, 0U);
  EXPECT_EQ(machine.huge_pages, "madvise");
  std::filesystem::remove_all(root);
}

TEST(ProcessMappingsTest, MappingsHaveTheirFiguresAndFlagsAndNonsenseIsSkipped) {
  const auto mappings = ParseMappings(
      "Rss: 1 kB\n"
      "7f10eea00000-7f1647f02000 rw-p 00000000 00:00 0 \n"
      "Size:  1 kB\nRss:                 300 kB\nPss: 30 kB\nPrivate_Dirty: 299 kB\n"
      "AnonHugePages:      200 kB\nSwap: 1 kB\nVmFlags: rd wr mr nr nh \n"
      "zz-12 rw-p\n"
      "12-10 rw-p\n"
      "Rss: 99999999999999999999 kB\n"
      "5000-6000 r--s 00000000 fe:00 109   /models/a b.gguf\n"
      "Rss: 8 kB\n");
  ASSERT_EQ(mappings.size(), 2U);
  EXPECT_EQ(mappings[0].begin, 0x7f10eea00000U);
  EXPECT_EQ(mappings[0].permissions, "rw-p");
  EXPECT_EQ(mappings[0].name, "");
  EXPECT_EQ(mappings[0].resident_bytes, 300U << 10);
  EXPECT_EQ(mappings[0].proportional_bytes, 30U << 10);
  EXPECT_EQ(mappings[0].private_dirty_bytes, 299U << 10);
  EXPECT_EQ(mappings[0].huge_page_bytes, 200U << 10);
  EXPECT_TRUE(mappings[0].HasFlag("nr"));
  EXPECT_FALSE(mappings[0].HasFlag("r"));
  EXPECT_EQ(mappings[1].name, "/models/a b.gguf");
  EXPECT_TRUE(mappings[1].is_file());
  EXPECT_EQ(mappings[1].resident_bytes, 8U << 10);
}

}  // namespace
}  // namespace swiftkv
