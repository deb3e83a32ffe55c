// SPDX-License-Identifier: Apache-2.0
// Compares the tree of bitmaps with a plain vector of flags.
#include "cache/frame_bitmap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace swiftkv {
namespace {

std::uint32_t SlowLowestFree(const std::vector<bool>& used) {
  const auto free = std::find(used.begin(), used.end(), false);
  return free == used.end() ? FrameBitmap::kNone : static_cast<std::uint32_t>(free - used.begin());
}

std::uint32_t SlowEndOfUsed(const std::vector<bool>& used) {
  std::size_t end = used.size();
  while (end > 0 && !used[end - 1]) --end;
  return static_cast<std::uint32_t>(end);
}

TEST(FrameBitmapTest, RandomUseEqualsAPlainVectorOfFlags) {
  std::mt19937 random(1);
  for (std::uint32_t capacity : {1U, 63U, 64U, 65U, 4096U, 5000U}) {
    MemoryBudget budget(1 << 20);
    FrameBitmap bitmap = FrameBitmap::Create(capacity, &budget).value();
    std::vector<bool> used(capacity, false);
    std::uint32_t end = 0;
    for (int step = 0; step < 6000; ++step) {
      const bool filling = (step / 2000) % 2 == 0;
      if (random() % 4 != (filling ? 0U : 1U) && filling) {
        const std::uint32_t frame = bitmap.LowestFree();
        ASSERT_EQ(frame, SlowLowestFree(used));
        if (frame == FrameBitmap::kNone) continue;
        ASSERT_TRUE(bitmap.TryGrow(std::max(end, frame + 1)));
        end = std::max(end, frame + 1);
        bitmap.Use(frame);
        used[frame] = true;
      } else {
        const std::uint32_t frame = random() % capacity;
        ASSERT_EQ(bitmap.IsUsed(frame), used[frame]);
        if (!used[frame]) continue;
        bitmap.Free(frame);
        used[frame] = false;
        ASSERT_EQ(bitmap.EndOfUsed(end), SlowEndOfUsed(used));
        end = SlowEndOfUsed(used);
        bitmap.Shrink(end);
      }
    }
    bitmap.CheckInvariants();
  }
}

TEST(FrameBitmapTest, AFullBitmapHasNoFreeFrameUntilOneIsFreed) {
  constexpr std::uint32_t kCapacity = 64 * 64 * 3 + 7;
  MemoryBudget budget(1 << 20);
  FrameBitmap bitmap = FrameBitmap::Create(kCapacity, &budget).value();
  ASSERT_TRUE(bitmap.TryGrow(kCapacity));
  for (std::uint32_t frame = 0; frame < kCapacity; ++frame) {
    ASSERT_EQ(bitmap.LowestFree(), frame);
    bitmap.Use(frame);
  }
  EXPECT_EQ(bitmap.LowestFree(), FrameBitmap::kNone);
  bitmap.CheckInvariants();
  for (std::uint32_t frame : {kCapacity - 1, 5000U, 64U, 0U}) {
    bitmap.Free(frame);
    EXPECT_EQ(bitmap.LowestFree(), frame);
  }
  bitmap.CheckInvariants();
}

}  // namespace
}  // namespace swiftkv
