// SPDX-License-Identifier: Apache-2.0
// Checks that a reserved range costs nothing until touched and ends at its guards.
#include "cache/mapped_range.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

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
