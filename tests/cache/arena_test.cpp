// SPDX-License-Identifier: Apache-2.0
// Compares what the arena charges with what the kernel counts.
#include "cache/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/process_memory.h"
#include "cache/frame_pool.h"
#include "cache/heap_ledger.h"

namespace swiftkv {
namespace {

constexpr std::uint64_t kLimit = 8 << 20;

std::uint64_t Resident(const Arena& arena) {
  return ResidentBytes(arena.base(), arena.reserved_bytes()).value();
}

void Write(const Arena& arena, std::uint32_t frame) {
  std::memset(arena.Frame(frame), static_cast<int>(frame % 251), arena.frame_bytes());
}

// Returns the bytes of a mapping that lie in huge pages, as smaps counts them.
std::uint64_t InHugePages(const Arena& arena) {
  std::ifstream file("/proc/self/smaps");
  const auto begin = reinterpret_cast<std::uintptr_t>(arena.base());
  std::uint64_t bytes = 0;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    std::uint64_t kilobytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &end) == 2) {
      inside = first >= begin && end <= begin + arena.reserved_bytes();
    } else if (inside && std::sscanf(line.c_str(), "AnonHugePages: %lu", &kilobytes) == 1) {
      bytes += kilobytes << 10;
    }
  }
  return bytes;
}

TEST(ArenaTest, HugePagesTakeWhatIsChargedAndNoMore) {
  std::mt19937 random(5);
  std::uint64_t most_huge = 0;
  for (std::size_t frame_bytes : {36864U, 190080U, 368640U, 3U << 20}) {
    MemoryBudget budget(48 << 20);
    const auto arena = Arena::Create(frame_bytes, &budget, true).value();
    std::vector<std::uint32_t> live;
    const int burst = static_cast<int>((6 << 20) / frame_bytes) + 1;
    for (int step = 0; step < 120; ++step) {
      if (random() % 5 < 3) {
        std::vector<std::uint32_t> fresh;
        for (int i = static_cast<int>(random() % static_cast<unsigned>(burst)); i >= 0; --i) {
          const std::uint32_t frame = arena->TryAllocate();
          if (frame == Arena::kNoFrame) break;
          if (random() % 2 == 0) Write(*arena, frame);  // before or after it lies in huge pages
          fresh.push_back(frame);
        }
        if (random() % 4 != 0) arena->UseHugePages();
        for (const std::uint32_t frame : fresh) Write(*arena, frame);
        live.insert(live.end(), fresh.begin(), fresh.end());
      } else {
        std::shuffle(live.begin(), live.end(), random);
        const std::size_t count = std::min<std::size_t>(live.size(), random() % 40);
        arena->Free(live.data() + live.size() - count, count);
        live.resize(live.size() - count);
      }
      arena->CheckInvariants();
      ASSERT_EQ(arena->mapped_bytes(), Resident(*arena)) << frame_bytes << " step " << step;
      most_huge = std::max(most_huge, InHugePages(*arena));
      for (const std::uint32_t frame : live) {
        ASSERT_EQ(*arena->Frame(frame), static_cast<std::byte>(frame % 251));
        ASSERT_EQ(arena->Frame(frame)[frame_bytes - 1], static_cast<std::byte>(frame % 251));
      }
    }
    arena->Free(live.data(), live.size());
    EXPECT_EQ(Resident(*arena), 0U);
  }
  RecordProperty("most_huge_bytes", std::to_string(most_huge));
  if (!SystemHasHugePages()) {
    EXPECT_EQ(most_huge, 0U);
  }
}

TEST(ArenaTest, AStretchThatIsNotFullStaysInSmallPages) {
  MemoryBudget budget(48 << 20);
  const auto arena = Arena::Create(kHugePageBytes / 4, &budget, true).value();
  for (std::uint32_t i = 0; i < 3; ++i) ASSERT_EQ(arena->TryAllocate(), i);
  arena->UseHugePages();
  EXPECT_EQ(Resident(*arena), 0U) << "nothing was touched yet";
  for (std::uint32_t i = 0; i < 3; ++i) Write(*arena, i);
  EXPECT_EQ(Resident(*arena), 3 * kHugePageBytes / 4);
  EXPECT_EQ(InHugePages(*arena), 0U);
}

TEST(ArenaTest, FramesLieBackToBackWhateverTheOsPage) {
  for (std::size_t frame_bytes : {64U, 2048U, 4160U, 18432U, 368640U}) {
    MemoryBudget budget(kLimit);
    const auto arena = Arena::Create(frame_bytes, &budget).value();
    for (std::uint32_t i = 0; i < 10; ++i) {
      ASSERT_EQ(arena->TryAllocate(), i);
      EXPECT_EQ(arena->Frame(i), arena->base() + i * frame_bytes);
      Write(*arena, i);
    }
    EXPECT_EQ(arena->mapped_bytes(), OsPages(10 * frame_bytes) * OsPageBytes());
    EXPECT_EQ(arena->mapped_bytes(), Resident(*arena));
  }
}

TEST(ArenaTest, WhatIsChargedIsWhatTheKernelCountsUnderRandomUse) {
  std::mt19937 random(2);
  for (std::size_t frame_bytes : {320U, 2048U, 4096U, 6208U, 36864U}) {
    MemoryBudget budget(2 << 20);
    const auto arena = Arena::Create(frame_bytes, &budget).value();
    std::vector<std::uint32_t> live;
    for (int step = 0; step < 300; ++step) {
      if (random() % 5 < 3) {
        for (std::uint32_t i = random() % 20; i > 0; --i) {
          const std::uint32_t frame = arena->TryAllocate();
          if (frame == Arena::kNoFrame) break;
          Write(*arena, frame);
          live.push_back(frame);
        }
      } else {
        std::shuffle(live.begin(), live.end(), random);
        const std::size_t count = std::min<std::size_t>(live.size(), random() % 40);
        arena->Free(live.data() + live.size() - count, count);
        live.resize(live.size() - count);
      }
      arena->CheckInvariants();
      ASSERT_EQ(budget.used_bytes(), arena->mapped_bytes() + arena->metadata_bytes());
      if (step % 8 != 0) continue;  // smaps is slow
      ASSERT_EQ(arena->mapped_bytes(), Resident(*arena));
    }
    for (std::uint32_t frame : live) {
      ASSERT_EQ(*arena->Frame(frame), static_cast<std::byte>(frame % 251));
    }
    arena->Free(live.data(), live.size());
    EXPECT_EQ(Resident(*arena), 0U);
    EXPECT_EQ(budget.used_bytes(), 0U);
  }
}

TEST(ArenaTest, TheBoundIsMetExactlyAndARefusalChangesNothing) {
  constexpr std::size_t kFrame = 6144;  // one and a half OS pages
  MemoryBudget budget(64 * 4096);
  const auto arena = Arena::Create(kFrame, &budget).value();
  std::uint32_t frames = 0;
  while (arena->TryAllocate() != Arena::kNoFrame) ++frames;
  // Bitmap and page counts take one OS page each; the rest is filled to the last whole frame.
  EXPECT_EQ(frames, 62 * 4096 / kFrame);
  EXPECT_LE(budget.used_bytes(), budget.limit_bytes());
  const std::uint64_t used = budget.used_bytes();
  EXPECT_EQ(arena->TryAllocate(), Arena::kNoFrame);
  EXPECT_EQ(budget.used_bytes(), used);
  arena->CheckInvariants();
  const std::uint32_t hole = 7;
  arena->Free(&hole, 1);
  EXPECT_EQ(arena->TryAllocate(), hole) << "the lowest free frame is reused";
}

TEST(ArenaTest, AnOsPageStaysWhileEitherOfItsTwoFramesLives) {
  MemoryBudget budget(kLimit);
  const auto arena = Arena::Create(2048, &budget).value();
  for (std::uint32_t i = 0; i < 4; ++i) Write(*arena, arena->TryAllocate());
  const std::uint32_t first = 0;
  const std::uint32_t second = 1;
  arena->Free(&first, 1);
  EXPECT_EQ(Resident(*arena), 8192U);
  EXPECT_EQ(*arena->Frame(1), std::byte{1});
  arena->Free(&second, 1);
  EXPECT_EQ(Resident(*arena), 4096U);
  EXPECT_EQ(arena->mapped_bytes(), 4096U);
  EXPECT_EQ(arena->returned_bytes(), 4096U);
}

TEST(FramePoolTest, AFrameLivesUntilItsLastOwnerHasGone) {
  MemoryBudget budget(kLimit);
  const auto pool = FramePool::Create({.frame_bytes = 4096}, &budget).value();
  const std::uint32_t frame = pool->TryAllocate();
  pool->AddReference(frame);
  EXPECT_TRUE(pool->IsShared(frame));
  EXPECT_EQ(pool->shared_bytes(), 4096U);
  EXPECT_EQ(pool->private_bytes(), 0U);
  pool->Release({&frame, 1});
  EXPECT_FALSE(pool->IsShared(frame));
  EXPECT_EQ(pool->private_bytes(), 4096U);
  pool->Release({&frame, 1});
  EXPECT_FALSE(pool->arena().IsLive(frame));
  EXPECT_EQ(budget.used_bytes(), 0U);
}

TEST(FramePoolTest, PoisonFillsFreshAndFreedFrames) {
  MemoryBudget budget(kLimit);
  const auto pool = FramePool::Create({.frame_bytes = 2048, .poison = true}, &budget).value();
  const std::uint32_t frame = pool->TryAllocate();
  const std::uint32_t neighbour = pool->TryAllocate();  // keeps the OS page
  EXPECT_EQ(*pool->arena().Frame(frame), std::byte{0xFF});
  std::memset(pool->arena().Frame(frame), 1, 2048);
  pool->Release({&frame, 1});
  EXPECT_EQ(pool->arena().Frame(neighbour)[-1], std::byte{0xFF});
}

TEST(HeapLedgerTest, BytesAreChargedInWholeOsPagesInTotal) {
  MemoryBudget budget(3 * 4096);
  HeapLedger ledger(&budget);
  ASSERT_TRUE(ledger.TryAdd(100));
  ASSERT_TRUE(ledger.TryAdd(3996));
  EXPECT_EQ(budget.used_bytes(), 4096U);
  ASSERT_TRUE(ledger.TryAdd(1));
  EXPECT_EQ(budget.used_bytes(), 8192U);
  EXPECT_TRUE(ledger.HasRoom(8191));
  EXPECT_FALSE(ledger.HasRoom(8192));
  EXPECT_FALSE(ledger.TryAdd(8192));
  EXPECT_EQ(ledger.bytes(), 4097U);
  ledger.Remove(4097);
  EXPECT_EQ(budget.used_bytes(), 0U);
  EXPECT_EQ(budget.peak_bytes(), 8192U);
}

}  // namespace
}  // namespace swiftkv
