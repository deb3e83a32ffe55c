// SPDX-License-Identifier: Apache-2.0
// Measures what compactions cost and give back: the kernel's count, the peak, full pools.
#include <gtest/gtest.h>

#include "base/process_memory.h"
#include "cache/constant_rows.h"
#include "cache/equal_balances.h"
#include "cache/segment_trial.h"

namespace swiftkv {
namespace {

constexpr std::uint64_t kFrameBytes = 16384;

std::unique_ptr<KvCache> NewBounded(std::uint64_t memory_bytes, bool keeps_headroom) {
  KvCacheOptions options;
  options.layers = TwoByTwo().layers;
  options.memory_bytes = memory_bytes;
  options.keeps_headroom = keeps_headroom;
  options.model_fingerprint = "memory";
  return std::move(KvCache::Create(options)).value();
}

// Appends all of a prompt, not told by name, in chunks.
void AppendAll(KvCache* cache, SequenceId id, int tokens) {
  for (int done = 0; done < tokens; done += 500) Append(cache, id, std::min(500, tokens - done), 1);
}

// What the kernel counts of the arenas that a sequence's runs lie in.
class ResidentArenas {
 public:
  explicit ResidentArenas(const KvCache* cache) : cache_(cache) {}

  std::uint64_t Bytes(SequenceId id) {
    std::vector<PageRun> runs;
    for (int layer = 0; layer < cache_->num_layers(); ++layer) {
      cache_->AppendRuns(id, layer, 0, &runs);
    }
    const std::uint64_t limit = cache_->Balance().limit_bytes;
    for (const PageRun& run : runs) {
      arenas_[run.base] = limit / run.frame_stride * run.frame_stride;
    }
    std::uint64_t bytes = 0;
    for (const auto& [base, size] : arenas_) bytes += ResidentBytes(base, size).value();
    return bytes;
  }

 private:
  const KvCache* const cache_;
  std::map<const std::byte*, std::size_t> arenas_;
};

TEST(CompactionMemoryTest, HalfTheTokensFreeHalfOfWhatTheKernelCounts) {
  const auto cache = NewBounded(64 << 20, false);
  const SequenceId id = *cache->CreateSequence();
  AppendAll(cache.get(), id, 6000);
  ResidentArenas resident(cache.get());
  const std::uint64_t before = resident.Bytes(id);
  EXPECT_EQ(before, 375 * kFrameBytes);
  ASSERT_TRUE(cache->Compact(id, OrderOf(*cache, id, 6000, {{"f16", "f16"}}, KeepsHalf)).ok());
  const std::uint64_t half = resident.Bytes(id);
  const KvBalance balance = cache->Balance();
  EXPECT_EQ(half, balance.live_private_bytes + balance.free_bytes);
  EXPECT_EQ(half, 4 * 188 * 4096U);
  EXPECT_LE(static_cast<double>(half), 0.53 * static_cast<double>(before));
  ASSERT_TRUE(cache->Compact(id, OrderOf(*cache, id, 6000, {{"int8", "int8"}}, KeepsAll)).ok());
  const std::uint64_t quarter = resident.Bytes(id);
  EXPECT_EQ(quarter, cache->Balance().live_private_bytes + cache->Balance().free_bytes);
  EXPECT_LE(static_cast<double>(quarter), 0.28 * static_cast<double>(before));
}

TEST(CompactionMemoryTest, BlocksGoOneByOneSoThatThePeakIsABlockOrTwoAbove) {
  const auto cache = NewBounded(64 << 20, false);
  const SequenceId id = *cache->CreateSequence();
  AppendAll(cache.get(), id, 6000);
  const KvBalance before = cache->Balance();
  const CompactionOrder order =
      OrderOf(*cache, id, 6000, {{"f16", "f16"}, {"int8", "int8"}}, KeepsMixed);
  const auto result = cache->Compact(id, order);
  ASSERT_TRUE(result.ok());
  const KvBalance after = cache->Balance();
  const std::uint64_t positions = static_cast<std::uint64_t>(result->kept_tokens) * 4;
  constexpr std::uint64_t kBookkeeping = 10 * 4096;
  EXPECT_LE(after.peak_bytes, before.peak_bytes + positions + 2 * kFrameBytes + kBookkeeping);
  EXPECT_LE(after.mapped_bytes, before.mapped_bytes * 45 / 100);
  EXPECT_EQ(result->mapped_before, before.mapped_bytes);
  EXPECT_EQ(result->mapped_after, after.mapped_bytes);
  EXPECT_TRUE(result->in_place);
}

// Fills a cache with one long sequence and short ones between its blocks, to the last block.
SequenceId FillUp(KvCache* cache, std::vector<SequenceId>* others) {
  const SequenceId id = *cache->CreateSequence();
  bool full = false;
  for (int i = 0; !full; ++i) {
    if (cache->Reserve(id, 48).ok()) {
      StoreConstant(*cache, id, cache->Length(id), 48, 1);
      cache->Commit(id, 48);
    } else {
      full = true;
    }
    if (i % 4 != 0) continue;
    others->push_back(*cache->CreateSequence());
    if (cache->Reserve(others->back(), 10).ok()) {
      StoreConstant(*cache, others->back(), 0, 10, 2);
      cache->Commit(others->back(), 10);
    }
  }
  while (cache->Reserve(id, 16).ok()) {
    StoreConstant(*cache, id, cache->Length(id), 16, 1);
    cache->Commit(id, 16);
  }
  return id;
}

TEST(CompactionMemoryTest, ItWorksInAFullPoolByTheHeadroomThatIsKeptFree) {
  for (const char* format : {"f16", "int8"}) {
    const auto cache = NewBounded(8 << 20, true);
    std::vector<SequenceId> others;
    const SequenceId id = FillUp(cache.get(), &others);
    const std::uint64_t full = cache->Balance().mapped_bytes;
    const std::int64_t end = cache->Length(id) / kPageTokens * kPageTokens;
    const auto result = cache->Compact(id, OrderOf(*cache, id, end, {{format, format}}, KeepsHalf));
    ASSERT_TRUE(result.ok()) << result.status().message();
    cache->CheckInvariants();
    EXPECT_LE(cache->Balance().peak_bytes, std::uint64_t{8} << 20);
    EXPECT_LT(cache->Balance().mapped_bytes, full * 7 / 10);
    EXPECT_TRUE(cache->Reserve(id, 500).ok()) << "what was freed can be used";
    for (const SequenceId other : others) {
      for (const float key : VisibleKeys(*cache, other)) ASSERT_EQ(key, 2);
    }
    const std::vector<float> keys = VisibleKeys(*cache, id);
    EXPECT_EQ(keys.size(), static_cast<std::size_t>(end) / 2 +
                               static_cast<std::size_t>(cache->Length(id) - end));
    for (const float key : keys) ASSERT_NEAR(key, 1, 0.01);
  }
}

TEST(CompactionMemoryTest, WithoutRoomItIsRefusedAndNothingChanges) {
  const auto cache = NewBounded(4 << 20, false);
  std::vector<SequenceId> others;
  const SequenceId id = FillUp(cache.get(), &others);
  const std::int64_t end = cache->Length(id) / kPageTokens * kPageTokens;
  const SequenceId fork = *cache->Fork(id);  // nothing can be freed on the way
  KvBalance before = cache->Balance();
  const auto result = cache->Compact(id, OrderOf(*cache, id, end, {{"f16", "f16"}}, KeepsHalf));
  EXPECT_EQ(result.status().code(), StatusCode::kResourceExhausted);
  before.peak_bytes = cache->Balance().peak_bytes;
  ExpectSameBalance(before, cache->Balance());
  cache->CheckInvariants();
  EXPECT_EQ(VisibleKeys(*cache, id).size(), static_cast<std::size_t>(cache->Length(id)));
  EXPECT_EQ(VisibleKeys(*cache, fork).size(), static_cast<std::size_t>(cache->Length(id)));
}

TEST(CompactionMemoryTest, ASharedSourceStaysAsLongAsOthersHoldIt) {
  const auto cache = NewBounded(16 << 20, false);
  const SequenceId id = *cache->CreateSequence();
  AppendAll(cache.get(), id, 1600);
  const SequenceId fork = *cache->Fork(id);
  const auto result = cache->Compact(id, OrderOf(*cache, id, 1600, {{"f16", "f16"}}, KeepsHalf));
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->in_place);
  EXPECT_GE(result->mapped_after, result->mapped_before + 50 * kFrameBytes);
  EXPECT_EQ(cache->Balance().live_private_bytes, 150 * kFrameBytes);
  cache->Release(fork);
  EXPECT_EQ(cache->Balance().live_private_bytes, 50 * kFrameBytes);
  cache->CheckInvariants();
}

TEST(CompactionMemoryTest, ManyShortSequencesOfOneSizeClassCompactToo) {
  // One head: a frame and a kept page are of one size class.
  KvCacheOptions options;
  options.layers = OneSmallHead().layers;
  options.memory_bytes = 256 << 10;
  options.keeps_headroom = true;
  const auto cache = std::move(KvCache::Create(options)).value();
  std::vector<SequenceId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(*cache->CreateSequence());
  bool full = false;
  while (!full) {
    for (const SequenceId id : ids) {
      if (!cache->Reserve(id, 16).ok()) {
        full = true;
        break;
      }
      StoreConstant(*cache, id, cache->Length(id), 16, 1);
      cache->Commit(id, 16);
    }
  }
  for (const SequenceId id : ids) {
    const auto result =
        cache->Compact(id, OrderOf(*cache, id, cache->Length(id), {{"f16", "f16"}}, KeepsHalf));
    ASSERT_TRUE(result.ok()) << result.status().message();
    cache->CheckInvariants();
  }
  EXPECT_LE(cache->Balance().peak_bytes, options.memory_bytes);
}

// Sequences of one head, whose blocks lie two on an OS page: what compacting one of them to pages
// of another size takes is more than it gives back, and comes from the headroom.
class HeadroomInUse {
 public:
  HeadroomInUse() {
    KvCacheOptions options;
    options.layers = OneSmallHead().layers;
    options.memory_bytes = 512 << 10;
    options.keeps_headroom = true;
    options.model_fingerprint = "memory";
    cache_ = std::move(KvCache::Create(options)).value();
    scope_.allowed = Quality::kAny;
  }

  KvCache& cache() { return *cache_; }
  const PrefixScope& scope() const { return scope_; }

  // Makes a sequence of 64 tokens that others may find.
  SequenceId CreateNamed() {
    const SequenceId id = *cache_->CreateSequence({}, scope_);
    EXPECT_TRUE(cache_->Reserve(id, 64).ok());
    StoreConstant(*cache_, id, 0, 64, 1);
    cache_->Commit(id, Tokens(64, 7));
    return id;
  }

  CompactionOrder OrderNamed(SequenceId id, std::size_t recipe_length) const {
    CompactionOrder order = OrderOf(*cache_, id, 64, {{"f16", "f16"}}, KeepsHalf);
    order.recipe = std::string(recipe_length, 'r');
    order.shareable = true;
    return order;
  }

  void ReachIn() {
    std::vector<SequenceId> ids;
    for (int i = 0; i < 4; ++i) ids.push_back(*cache_->CreateSequence());
    for (std::size_t i = 0; cache_->Reserve(ids[i % 4], 16).ok(); ++i) {
      StoreConstant(*cache_, ids[i % 4], cache_->Length(ids[i % 4]), 16, 1);
      cache_->Commit(ids[i % 4], 16);
    }
    const std::uint64_t full = cache_->Balance().mapped_bytes;
    const std::int64_t end = cache_->Length(ids[0]);
    const auto order = OrderOf(*cache_, ids[0], end, {{"int8", "int8"}}, KeepsAll);
    ASSERT_TRUE(cache_->Compact(ids[0], order).ok());
    cache_->CheckInvariants();
    ASSERT_GT(cache_->Balance().mapped_bytes, full + (8 << 10));
  }

 private:
  std::unique_ptr<KvCache> cache_;
  PrefixScope scope_;
};

TEST(CompactionMemoryTest, WhatIsBookedForANameIsEnoughWhileAnotherReachesIntoTheHeadroom) {
  HeadroomInUse trial;
  KvCache& cache = trial.cache();
  const SequenceId id = trial.CreateNamed();
  const CompactionOrder order = trial.OrderNamed(id, 20000);
  ASSERT_TRUE(cache.BeginCompaction(id, order).value());
  trial.ReachIn();
  ASSERT_TRUE(cache.ContinueCompaction(id, 4));
  EXPECT_TRUE(cache.FinishCompaction(id, order).findable);
  cache.CheckInvariants();
}

TEST(CompactionMemoryTest, SegmentsLoseTheirNamesWhileAnotherReachesIntoTheHeadroom) {
  for (std::size_t length = 100; length < 4200; length += 250) {  // to the end of an OS page
    HeadroomInUse trial;
    KvCache& cache = trial.cache();
    const SequenceId id = trial.CreateNamed();
    ASSERT_TRUE(cache.Compact(id, trial.OrderNamed(id, length)).value().findable);
    trial.ReachIn();
    cache.DropPrefixes(trial.scope());
    cache.CheckInvariants();
    EXPECT_EQ(cache.segment_totals().findable, 0U);
    EXPECT_EQ(cache.SegmentEnd(id), 64);
  }
}

}  // namespace
}  // namespace swiftkv
