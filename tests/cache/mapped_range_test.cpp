// SPDX-License-Identifier: Apache-2.0
// Checks that a reserved range costs nothing until touched and ends at its guards.
#include "cache/mapped_range.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "base/process_mappings.h"
#include "base/process_memory.h"
#include "cache/charged_array.h"

namespace swiftkv {
namespace {

TEST(MappedRangeTest, ReservingCostsNothingAndDiscardingGivesPagesBackAsZeros) {
  const std::size_t page = OsPageBytes();
  MappedRange range = MappedRange::Reserve(std::size_t{1} << 36, "swiftkv test").value();
  EXPECT_EQ(ResidentBytes(range.data(), range.bytes()).value(), 0U);
  std::memset(range.data() + page, 7, 3 * page);
  EXPECT_EQ(ResidentBytes(range.data(), range.bytes()).value(), 3 * page);
  range.Discard(2 * page, page);
  EXPECT_EQ(ResidentBytes(range.data(), range.bytes()).value(), 2 * page);
  EXPECT_EQ(range.data()[2 * page], std::byte{0});
  EXPECT_EQ(range.data()[3 * page], std::byte{7});
}

// Whatever the system's setting is, "always" too: neither a first touch nor khugepaged adds to a
// mapping that refuses huge pages.
TEST(MappedRangeTest, TheKernelIsNeverLeftToChooseHugePages) {
  constexpr std::size_t kBytes = 8 * kHugePageBytes;
  MappedRange range = MappedRange::Reserve(kBytes, "swiftkv test", kHugePageBytes).value();
  std::memset(range.data(), 1, kHugePageBytes + OsPageBytes());
  const bool given = range.UseHugePages(2 * kHugePageBytes, 2 * kHugePageBytes);
  range.data()[6 * kHugePageBytes] = std::byte{1};
  range.Discard(3 * kHugePageBytes, OsPageBytes());
  std::uint64_t resident = 0;
  std::uint64_t huge = 0;
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data());
  const std::vector<ProcessMapping> mappings = ReadMappings("/proc/self").value();
  for (const ProcessMapping& mapping : mappings) {
    if (mapping.end <= begin || mapping.begin >= begin + kBytes) continue;
    EXPECT_TRUE(mapping.HasFlag("nh")) << mapping.flags;
    EXPECT_FALSE(mapping.HasFlag("hg")) << mapping.flags;
    resident += mapping.resident_bytes;
    huge += mapping.huge_page_bytes;
  }
  EXPECT_LE(huge, 2 * kHugePageBytes);
  if (!given) return;
  EXPECT_EQ(resident,
            kHugePageBytes + OsPageBytes() + 2 * kHugePageBytes - OsPageBytes() + OsPageBytes());
}

TEST(MappedRangeTest, AMoveLeavesOneOwner) {
  MappedRange first = MappedRange::Reserve(10, "swiftkv test").value();
  EXPECT_EQ(first.bytes(), OsPageBytes());
  std::byte* const data = first.data();
  MappedRange second = std::move(first);
  EXPECT_EQ(second.data(), data);
  data[9] = std::byte{1};
}

TEST(MappedRangeTest, AnOverrunStopsAtTheGuardPages) {
  MappedRange range = MappedRange::Reserve(OsPageBytes(), "swiftkv test").value();
  volatile std::byte* const data = range.data();
  EXPECT_DEATH(data[OsPageBytes()] = std::byte{1}, "");
  EXPECT_DEATH(data[-1] = std::byte{1}, "");
}

TEST(MappedRangeTest, AddressesThatDoNotExistAreRefused) {
  EXPECT_EQ(MappedRange::Reserve(SIZE_MAX, "swiftkv test").status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(MappedRange::Reserve(0, "swiftkv test").status().code(),
            StatusCode::kResourceExhausted);
}

TEST(ChargedArrayTest, GrowingChargesBeforeTheTouchAndShrinkingGivesBackZeros) {
  MemoryBudget budget(3 * OsPageBytes());
  auto array =
      ChargedArray<std::uint32_t>::Create(std::size_t{1} << 20, "swiftkv test", &budget).value();
  const std::size_t per_page = OsPageBytes() / sizeof(std::uint32_t);
  ASSERT_TRUE(array.TryGrow(1));
  EXPECT_EQ(budget.used_bytes(), OsPageBytes());
  ASSERT_TRUE(array.TryGrow(3 * per_page));
  EXPECT_FALSE(array.TryGrow(3 * per_page + 1));
  EXPECT_EQ(array.size(), 3 * per_page);
  array[0] = 5;
  array[per_page] = 6;
  array.Shrink(per_page);
  EXPECT_EQ(budget.used_bytes(), OsPageBytes());
  ASSERT_TRUE(array.TryGrow(2 * per_page));
  EXPECT_EQ(array[0], 5U);
  EXPECT_EQ(array[per_page], 0U);
}

}  // namespace
}  // namespace swiftkv
