// SPDX-License-Identifier: Apache-2.0
// Checks which blocks the RAM tier forgets first.
#include "cache/ram_page_store.h"

#include <gtest/gtest.h>

#include <vector>

namespace swiftkv {
namespace {

BlockKey Key(std::uint8_t number) {
  BlockKey key;
  key.bytes.fill(number);
  return key;
}

TEST(RamPageStoreTest, TheLeastRecentlyUsedBlockLeavesFirst) {
  const auto store = OpenRamPageStore({.limit_bytes = 300, .location = {}}).value();
  const std::vector<std::byte> payload(100);
  for (std::uint8_t i = 1; i <= 3; ++i) ASSERT_TRUE(store->Put(Key(i), {}, payload).ok());
  ASSERT_TRUE(store->Get(Key(1)).ok());  // 2 is now the oldest
  ASSERT_TRUE(store->Put(Key(4), {}, payload).ok());
  EXPECT_TRUE(store->Contains(Key(1)));
  EXPECT_FALSE(store->Contains(Key(2)));
  EXPECT_TRUE(store->Contains(Key(3)));
  EXPECT_EQ(store->bytes_used(), 300U);
}

TEST(RamPageStoreTest, OneLargeBlockMayPushOutSeveralSmallOnes) {
  const auto store = OpenRamPageStore({.limit_bytes = 300, .location = {}}).value();
  for (std::uint8_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(store->Put(Key(i), {}, std::vector<std::byte>(100)).ok());
  }
  ASSERT_TRUE(store->Put(Key(9), {}, std::vector<std::byte>(150)).ok());
  EXPECT_FALSE(store->Contains(Key(1)));
  EXPECT_FALSE(store->Contains(Key(2)));
  EXPECT_TRUE(store->Contains(Key(3)));
  EXPECT_EQ(store->bytes_used(), 250U);
}

TEST(RamPageStoreTest, ALimitOfZeroHoldsOnlyEmptyPayloads) {
  const auto store = OpenRamPageStore({}).value();
  EXPECT_EQ(store->Put(Key(1), {}, std::vector<std::byte>(1)).code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(store->bytes_used(), 0U);
}

}  // namespace
}  // namespace swiftkv
