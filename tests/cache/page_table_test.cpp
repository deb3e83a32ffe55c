// SPDX-License-Identifier: Apache-2.0
// Compares page tables with a deque, and their heap with what the ledger booked.
#include "cache/page_table.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <string>
#include <vector>

namespace swiftkv {
namespace {

TEST(PageTableTest, RandomUseEqualsADequeAndBooksItsHeapExactly) {
  std::mt19937 random(4);
  MemoryBudget budget(1 << 20);
  HeapLedger ledger(&budget);
  PageTable table;
  std::deque<std::uint32_t> expected;
  std::int64_t first = 0;
  for (int step = 0; step < 20000; ++step) {
    const std::uint32_t kind = random() % 10;
    if (kind < 6) {
      const std::size_t count = random() % 4;
      ASSERT_TRUE(table.TryMakeRoom(count, &ledger));
      for (std::size_t i = 0; i < count; ++i) {
        expected.push_back(random());
        table.Append(expected.back());
      }
    } else if (kind < 9) {  // a window slides
      const auto count = static_cast<std::int64_t>(random() % (expected.size() / 8 + 1));
      table.DropBefore(first += count);
      expected.erase(expected.begin(), expected.begin() + count);
    } else if (random() % 4 == 0) {
      const auto count = static_cast<std::int64_t>(random() % (expected.size() + 1));
      table.DropFrom(table.end_block() - count);
      expected.erase(expected.end() - count, expected.end());
      if (random() % 2 == 0) table.ShrinkRoom(random() % 64, &ledger);
    }
    ASSERT_EQ(table.first_block(), first);
    ASSERT_EQ(table.end_block(), first + static_cast<std::int64_t>(expected.size()));
    ASSERT_EQ(std::vector<std::uint32_t>(table.frames().begin(), table.frames().end()),
              std::vector<std::uint32_t>(expected.begin(), expected.end()));
    ASSERT_EQ(ledger.bytes(), table.heap_bytes());
    if (!expected.empty()) {
      ASSERT_EQ(table.frame(first), expected.front());
    }
  }
}

TEST(PageTableTest, ASlidingWindowNeverGrowsItsTableAfterTheStart) {
  MemoryBudget budget(1 << 20);
  HeapLedger ledger(&budget);
  PageTable table;
  std::size_t settled = 0;
  for (std::int64_t block = 0; block < 10000; ++block) {
    ASSERT_TRUE(table.TryMakeRoom(1, &ledger));
    table.Append(static_cast<std::uint32_t>(block));
    if (block >= 33) table.DropBefore(block - 32);
    if (block == 200) settled = table.capacity();
  }
  EXPECT_EQ(table.capacity(), settled);
  EXPECT_LE(table.capacity(), 4U * 33);
}

TEST(PageTableTest, ARefusedRoomChangesNothing) {
  MemoryBudget budget(4096);
  HeapLedger ledger(&budget);
  PageTable table;
  ASSERT_TRUE(table.TryMakeRoom(1000, &ledger));
  for (std::uint32_t i = 0; i < 1000; ++i) table.Append(i);
  EXPECT_FALSE(table.TryMakeRoom(1, &ledger));
  EXPECT_EQ(table.capacity(), 1000U);
  EXPECT_EQ(table.frame(999), 999U);
  EXPECT_EQ(ledger.bytes(), 4000U);
}

// Writes a table's layouts as text: "o" open, "s" sealed, one letter a block.
std::string LayoutsOf(const PageTable& table, std::int64_t first, std::int64_t end) {
  std::string text;
  std::int64_t next = -1;
  for (const BlockStretch& stretch : table.Stretches(first, end)) {
    if (stretch.frames.empty()) continue;
    EXPECT_TRUE(next == -1 || stretch.first == next) << "stretches lie side by side";
    EXPECT_TRUE(text.empty() || text.back() != (stretch.is_sealed ? 's' : 'o'));
    next = stretch.first + static_cast<std::int64_t>(stretch.frames.size());
    EXPECT_EQ(stretch.frames[0], table.frame(stretch.first));
    text.append(stretch.frames.size(), stretch.is_sealed ? 's' : 'o');
  }
  return text;
}

TEST(PageTableTest, StretchesFollowSealingOpeningDroppingAndCutting) {
  MemoryBudget budget(1 << 20);
  HeapLedger ledger(&budget);
  PageTable table;
  ASSERT_TRUE(table.TryMakeRoom(8, &ledger));
  EXPECT_EQ(LayoutsOf(table, 0, 8), "");
  for (std::uint32_t i = 0; i < 8; ++i) table.Append(i);
  EXPECT_EQ(LayoutsOf(table, 0, 8), "oooooooo");
  table.SealNext(100);
  table.SealNext(101);
  table.SealNext(102);
  EXPECT_EQ(LayoutsOf(table, 0, 8), "osssoooo");
  EXPECT_EQ(LayoutsOf(table, 2, 5), "sso");
  EXPECT_EQ(LayoutsOf(table, 5, 5), "");
  EXPECT_EQ(table.frame(3), 102U);
  table.OpenNewest(200);
  EXPECT_EQ(LayoutsOf(table, 0, 8), "ossooooo");
  EXPECT_EQ(table.frame(3), 200U);
  table.DropBefore(2);
  EXPECT_EQ(LayoutsOf(table, 0, 8), "sooooo");
  EXPECT_TRUE(table.IsSealed(2));
  table.DropBefore(5);
  EXPECT_EQ(LayoutsOf(table, 0, 8), "ooo");
  table.SealNext(103);
  EXPECT_EQ(LayoutsOf(table, 0, 8), "soo");
  table.DropFrom(6);
  EXPECT_EQ(LayoutsOf(table, 0, 8), "s");
  table.DropFrom(5);
  table.StartAt(0);
  table.Append(7);
  EXPECT_EQ(LayoutsOf(table, 0, 8), "o");
  EXPECT_EQ(table.sealed_end(), 1);
}

TEST(PageTableTest, RoomForAForkIsWhatRoomBytesSays) {
  for (std::size_t count : {0U, 1U, 16U, 17U, 1000U}) {
    MemoryBudget budget(1 << 20);
    HeapLedger ledger(&budget);
    PageTable table;
    ASSERT_TRUE(table.TryMakeRoom(count, &ledger));
    EXPECT_EQ(table.heap_bytes(), PageTable::RoomBytes(count)) << count;
  }
}

}  // namespace
}  // namespace swiftkv
