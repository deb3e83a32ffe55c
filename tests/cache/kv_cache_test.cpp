// SPDX-License-Identifier: Apache-2.0
// Checks what sequences of a cache hold: forks, windows, cuts, reservations, threads.
#include "swiftkv/kv_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "cache/constant_rows.h"

namespace swiftkv {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

const std::byte* PageAt(const KvCache& cache, SequenceId id, int page) {
  std::vector<PageRun> runs;
  cache.AppendRuns(id, 0, 0, &runs);
  return runs.at(0).Page(page, 0);
}

TEST(KvCacheTest, ForkSharesEveryPageUntilOneOfTheTwoWrites) {
  for (int remainder : {1, 5, 15}) {
    const auto cache = NewCache(ThreeHeads(), 1 << 20);
    const SequenceId parent = *cache->CreateSequence();
    Append(cache.get(), parent, 32 + remainder, 1);
    const std::uint64_t mapped = cache->Balance().mapped_bytes;
    const SequenceId child = *cache->Fork(parent);
    EXPECT_LE(cache->Balance().mapped_bytes - mapped, 4096U) << "a fork copies no page";
    EXPECT_EQ(cache->Balance().live_private_bytes, 0U);
    for (int page = 0; page < 3; ++page) {
      EXPECT_EQ(PageAt(*cache, parent, page), PageAt(*cache, child, page));
    }
    // Both go on from the half-filled page with tokens of their own, in turns.
    for (int i = 0; i < 20; ++i) {
      Append(cache.get(), parent, 1, 2);
      Append(cache.get(), child, 1, 3);
      cache->CheckInvariants();
    }
    std::vector<float> expected(static_cast<std::size_t>(32 + remainder), 1.0F);
    std::vector<float> other = expected;
    expected.insert(expected.end(), 20, 2.0F);
    other.insert(other.end(), 20, 3.0F);
    EXPECT_EQ(VisibleKeys(*cache, parent), expected);
    EXPECT_EQ(VisibleKeys(*cache, child), other);
    EXPECT_EQ(PageAt(*cache, parent, 1), PageAt(*cache, child, 1));
    EXPECT_NE(PageAt(*cache, parent, 2), PageAt(*cache, child, 2));
  }
}

TEST(KvCacheTest, OfManyForksEachSeesItsOwnTailAndTheLastWriterNeedsNoCopy) {
  const auto cache = NewCache(OneSmallHead(), 1 << 20);
  std::vector<SequenceId> all = {*cache->CreateSequence()};
  Append(cache.get(), all[0], 21, 1);
  for (int i = 0; i < 7; ++i) all.push_back(*cache->Fork(all[static_cast<std::size_t>(i)]));
  for (std::size_t i = 0; i < all.size(); ++i) {
    Append(cache.get(), all[i], 1, 10.0F + static_cast<float>(i));
  }
  cache->CheckInvariants();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<float> keys = VisibleKeys(*cache, all[i]);
    EXPECT_EQ(keys[20], 1);
    EXPECT_EQ(keys[21], 10.0F + static_cast<float>(i));
  }
  // One shared block and eight tails: the eighth writer kept the original.
  const KvBalance balance = cache->Balance();
  EXPECT_EQ(balance.live_shared_bytes, 2048U);
  EXPECT_EQ(balance.live_private_bytes, 8 * 2048U);
}

TEST(KvCacheTest, AForkEndsTheParentsReservation) {
  const auto cache = NewCache(OneSmallHead(), 1 << 20);
  const SequenceId parent = *cache->CreateSequence();
  Append(cache.get(), parent, 20, 1);
  ASSERT_TRUE(cache->Reserve(parent, 50).ok());
  const SequenceId child = *cache->Fork(parent);
  cache->CheckInvariants();
  EXPECT_DEATH(StoreConstant(*cache, parent, 20, 1, 2), "rows go to reserved positions");
  Append(cache.get(), parent, 1, 2);
  EXPECT_EQ(VisibleKeys(*cache, child), std::vector<float>(20, 1.0F));
}

TEST(KvCacheTest, AWindowGroupKeepsWhatItsWindowNeedsAndNoMore) {
  // Layers 0 and 1 see 21 tokens, layer 2 everything.
  const auto cache = NewCache(ShortWindow(), 4 << 20);
  const SequenceId id = *cache->CreateSequence();
  for (int length = 1; length <= 200; ++length) {
    Append(cache.get(), id, 1, static_cast<float>(length));
    const std::vector<float> seen = VisibleKeys(*cache, id, 0);
    const int oldest = std::max(0, length - 21 + 1);  // the next query stands at `length`
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(length - oldest / 16 * 16));
    EXPECT_EQ(seen.back(), static_cast<float>(length));
    EXPECT_EQ(VisibleKeys(*cache, id, 2).size(), static_cast<std::size_t>(length));
  }
  cache->CheckInvariants();
}

TEST(KvCacheTest, TruncateForgetsTheTailAndNeverTouchesAFork) {
  const auto cache = NewCache(ThreeHeads(), 1 << 20);
  const SequenceId id = *cache->CreateSequence();
  Append(cache.get(), id, 40, 1);
  const SequenceId fork = *cache->Fork(id);
  ASSERT_TRUE(cache->Truncate(id, 20).ok());
  EXPECT_EQ(cache->Length(id), 20);
  Append(cache.get(), id, 3, 2);
  EXPECT_EQ(VisibleKeys(*cache, fork), std::vector<float>(40, 1.0F));
  std::vector<float> expected(20, 1.0F);
  expected.insert(expected.end(), 3, 2.0F);
  EXPECT_EQ(VisibleKeys(*cache, id), expected);
  ASSERT_TRUE(cache->Truncate(id, 0).ok());
  EXPECT_TRUE(VisibleKeys(*cache, id).empty());
  cache->CheckInvariants();
}

TEST(KvCacheTest, TruncateRefusesWhereAWindowLacksWhatAQueryWouldSee) {
  const auto cache = NewCache(ShortWindow(), 4 << 20);  // window 21
  const SequenceId id = *cache->CreateSequence();
  Append(cache.get(), id, 100, 1);  // the window group holds positions from 80 on
  EXPECT_TRUE(cache->Truncate(id, 100).ok());
  const Status status = cache->Truncate(id, 99);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("window of 21 tokens hold positions from 80 on"));
  EXPECT_THAT(status.message(), EndsWith("length: 99"));
  EXPECT_EQ(cache->Length(id), 100);
  EXPECT_EQ(cache->Truncate(id, 101).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(cache->Truncate(id, -1).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(cache->Truncate(id, 0).ok());  // nothing is seen from there
  Append(cache.get(), id, 30, 2);
  EXPECT_EQ(VisibleKeys(*cache, id, 0), std::vector<float>(30, 2.0F));
  cache->CheckInvariants();
}

TEST(KvCacheTest, PagesOfPoisonedFramesNeverReachAReader) {
  for (const char* format : {"f16", "bf16", "f32"}) {
    const auto cache = NewCache(OneSmallHead(), 48 << 10, format, true);
    for (int round = 0; round < 30; ++round) {  // a tiny pool, used over and over
      const SequenceId id = *cache->CreateSequence();
      Append(cache.get(), id, 16 * (round % 3) + 1, std::numeric_limits<float>::quiet_NaN());
      Append(cache.get(), id, 1 + round % 5, std::numeric_limits<float>::infinity());
      const SequenceId fork = *cache->Fork(id);
      Append(cache.get(), fork, 1, 1);
      for (const SequenceId reader : {id, fork}) {
        for (float key : VisibleKeys(*cache, reader)) ASSERT_TRUE(std::isfinite(key)) << format;
      }
      cache->Release(id);
      cache->Release(fork);
      cache->CheckInvariants();
    }
  }
}

TEST(KvCacheTest, ThreadsStoreDisjointHeadsTokensAndLayersTogether) {
  const auto cache = NewCache(ThreeHeads(), 8 << 20);
  const SequenceId id = *cache->CreateSequence();
  constexpr int kTokens = 203;
  ASSERT_TRUE(cache->Reserve(id, kTokens).ok());
  const std::size_t stride = 3 * 32;
  std::vector<float> rows(stride * kTokens);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i % 2048);
  std::vector<std::thread> threads;
  for (int head = 0; head < 3; ++head) {
    for (int half = 0; half < 2; ++half) {  // both halves meet within one page
      threads.emplace_back([&, head, half] {
        const int first = half == 0 ? 0 : 100;
        const int count = half == 0 ? 100 : kTokens - 100;
        for (int layer = 0; layer < cache->num_layers(); ++layer) {
          const float* const start = rows.data() + static_cast<std::size_t>(first) * stride;
          cache->StoreRows({.sequence = id,
                            .layer = layer,
                            .first_position = first,
                            .num_tokens = count,
                            .first_head = head,
                            .end_head = head + 1,
                            .keys = start,
                            .values = start,
                            .token_stride = stride});
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  cache->Commit(id, kTokens);
  std::vector<PageRun> runs;
  cache->AppendRuns(id, 2, 0, &runs);
  ASSERT_EQ(runs.size(), 1U);
  std::vector<float> row(32);
  for (int t = 0; t < kTokens; ++t) {
    for (int head = 0; head < 3; ++head) {
      const std::byte* const page = runs[0].Page(t / kPageTokens, head);
      runs[0].format.value->Decode(ValuePlane(runs[0].format, runs[0].layout, 32, page),
                                   {t % kPageTokens, 1}, row.data(), row.size());
      for (int c = 0; c < 32; ++c) {
        const std::size_t at =
            static_cast<std::size_t>(t) * stride + static_cast<std::size_t>(head * 32 + c);
        ASSERT_EQ(row[static_cast<std::size_t>(c)], rows[at]);
      }
    }
  }
}

TEST(KvCacheTest, ViewsOfReservedTokensAreThereBeforeTheyAreCommitted) {
  const auto cache = NewCache(ThreeHeads(), 1 << 20);
  const SequenceId id = *cache->CreateSequence();
  std::vector<PageRun> runs;
  cache->AppendRuns(id, 0, 0, &runs);
  EXPECT_TRUE(runs.empty());
  Append(cache.get(), id, 20, 1);
  ASSERT_TRUE(cache->Reserve(id, 30).ok());
  StoreConstant(*cache, id, 20, 30, 2);
  cache->AppendRuns(id, 0, 30, &runs);
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].num_tokens, 50);
  EXPECT_EQ(runs[0].num_pages, 4);
  EXPECT_EQ(runs[0].first_position, 0);
  EXPECT_EQ(runs[0].first_head, 0);
  EXPECT_EQ(runs[0].end_head, 3);
  EXPECT_EQ(runs[0].positions, nullptr);
  cache->Commit(id, 12);  // the other 18 stay reserved
  EXPECT_EQ(cache->Length(id), 32);
  StoreConstant(*cache, id, 49, 1, 3);
  cache->Commit(id, 18);
  EXPECT_EQ(cache->Length(id), 50);
  EXPECT_EQ(VisibleKeys(*cache, id)[49], 3);
}

TEST(KvCacheTest, AStaleIdStopsTheProcess) {
  const auto cache = NewCache(OneSmallHead(), 1 << 20);
  const SequenceId id = *cache->CreateSequence();
  cache->Release(id);
  const SequenceId next = *cache->CreateSequence();
  EXPECT_NE(id, next);
  EXPECT_DEATH((void)cache->Length(id), "no live sequence");
}

}  // namespace
}  // namespace swiftkv
