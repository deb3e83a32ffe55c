// SPDX-License-Identifier: Apache-2.0
// Compacts in pieces, with others at work in between, and compares with what one call makes.
#include <gtest/gtest.h>

#include "cache/segment_trial.h"

namespace swiftkv {
namespace {

constexpr int kEnd = 240;

const std::vector<FormatCase>& Cases() {
  static const std::vector<FormatCase> cases = {
      {{"f16", "f16"}, ThreeHeads()},    {{"f16", "f16"}, ShortWindow()},
      {{"int8", "int8"}, EqualFrames()}, {{"int8", "int4"}, SixLayers()},
      {{"int4", "int4"}, LongWindow()},
  };
  return cases;
}

CompactionResult CompactInPieces(KvCache* cache, SequenceId id, const CompactionOrder& order) {
  EXPECT_TRUE(cache->BeginCompaction(id, order).value());
  while (!cache->ContinueCompaction(id, 3)) cache->CheckInvariants();
  return cache->FinishCompaction(id, order);
}

TEST(CompactionPiecesTest, WhatIsKeptIsTheSameWhateverOthersDoBetween) {
  for (const FormatCase& test : Cases()) {
    for (const Keeps keeps : {KeepsRagged, KeepsNone}) {
      const auto cache = NewCacheOf(test.geometry, test.format);
      const SequenceId id = *cache->CreateSequence();
      AppendStamped(cache.get(), id, kEnd + 10, 1);
      for (int round = 0; round < 2; ++round) {  // of dense blocks, then of a segment and a tail
        const std::int64_t end = cache->Length(id) / kPageTokens * kPageTokens;
        const SeenCache before = AllSeen(*cache, id);
        const CompactionOrder order = OrderOf(*cache, id, end, {test.format}, keeps);
        ASSERT_TRUE(cache->BeginCompaction(id, order).value());
        std::vector<SequenceId> others;
        do {  // slots move as their number grows
          cache->CheckInvariants();
          others.push_back(*cache->CreateSequence());
          AppendStamped(cache.get(), others.back(), 20, 500);
          ExpectSameRows(before, AllSeen(*cache, id));
        } while (!cache->ContinueCompaction(id, 4));
        const CompactionResult result = cache->FinishCompaction(id, order);
        cache->CheckInvariants();
        EXPECT_EQ(result.end, end);
        EXPECT_GT(result.dropped_tokens, 0);
        EXPECT_EQ(cache->SegmentEnd(id), end);
        EXPECT_EQ(cache->segment_totals().segments, 1U);
        // In formats of few bits what was int8 in the old segment may be int4 in the new one.
        const bool seals = round > 0 && test.format.value == "int4";
        ExpectSameRows(WithoutDropped(order, before), AllSeen(*cache, id), seals ? 0.3 : 0);
        if (HasFailure()) FAIL() << test.geometry.name << " " << test.format.key;
        for (const SequenceId other : others) cache->Release(other);
        AppendStamped(cache.get(), id, 70, 1000);
      }
      cache->Release(id);
      cache->CheckInvariants();
      EXPECT_EQ(cache->Balance().live_private_bytes, 0U);
    }
  }
}

TEST(CompactionPiecesTest, GivenUpAnywhereItLeavesNothingBehind) {
  for (int done = 0; done < 5; ++done) {
    for (const char* by : {"release", "truncate", "compact", "begin"}) {
      const auto cache = NewCacheOf(Cases()[0].geometry, Cases()[0].format);
      const SequenceId id = *cache->CreateSequence();
      AppendStamped(cache.get(), id, kEnd, 1);
      const SeenCache before = AllSeen(*cache, id);
      const CompactionOrder order = OrderOf(*cache, id, kEnd, {Cases()[0].format}, KeepsHalf);
      ASSERT_TRUE(cache->BeginCompaction(id, order).value());
      for (int i = 0; i < done; ++i) cache->ContinueCompaction(id, 3);
      if (by == std::string("truncate")) {
        ASSERT_TRUE(cache->Truncate(id, 100).ok());
        EXPECT_EQ(cache->SegmentEnd(id), 0);
      } else if (by == std::string("compact")) {
        ASSERT_TRUE(cache->Compact(id, order).ok());
        ExpectSameRows(WithoutDropped(order, before), AllSeen(*cache, id));
      } else if (by == std::string("begin")) {
        CompactInPieces(cache.get(), id, order);
        ExpectSameRows(WithoutDropped(order, before), AllSeen(*cache, id));
      }
      cache->CheckInvariants();
      EXPECT_LE(cache->segment_totals().segments, 1U);
      cache->Release(id);
      cache->CheckInvariants();
      EXPECT_EQ(cache->segment_totals().segments, 0U);
      EXPECT_EQ(cache->Balance().live_private_bytes, 0U);
    }
  }
}

TEST(CompactionPiecesTest, OthersFindTheSegmentOnceItIsWhole) {
  PrefixTrial trial(ThreeHeads());
  KvCache& cache = trial.cache();
  const Tokens prompt = Prompt(1, 81);
  const SequenceId id = trial.Create(AnyScope());
  ASSERT_TRUE(trial.Compute(id, prompt, 64));
  const CompactionOrder order = ShareableOrder(cache, id, 64);
  ASSERT_TRUE(cache.BeginCompaction(id, order).value());
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), prompt, kRecipe), 0);
  EXPECT_TRUE(cache.ContinueCompaction(id, 4));
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), prompt, kRecipe), 0);
  EXPECT_TRUE(cache.FinishCompaction(id, order).findable);
  cache.CheckInvariants();
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), prompt, kRecipe), 64);
  const SequenceId second = trial.Create(AnyScope());
  ASSERT_EQ(cache.AdoptSegment(second, prompt, kRecipe).value(), 64);
  ExpectSameRows(AllSeen(cache, id), AllSeen(cache, second));
  const std::vector<SegmentDescription> told = cache.DescribeSegments();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].recipe, kRecipe);
  EXPECT_EQ(told[0].end, 64);
  EXPECT_EQ(told[0].kept_tokens, 32);
  EXPECT_EQ(told[0].users, 2U);
  EXPECT_EQ(told[0].adoptions, 1U);
  EXPECT_EQ(told[0].bytes, cache.segment_totals().page_bytes);
  EXPECT_EQ(told[0].formats, std::vector<KvFormat>{KvFormat{}});
}

TEST(CompactionPiecesTest, WhatAnotherHasMadeMeanwhileIsTaken) {
  PrefixTrial trial(ThreeHeads());
  KvCache& cache = trial.cache();
  const Tokens prompt = Prompt(1, 81);
  std::vector<SequenceId> ids;
  std::vector<CompactionOrder> orders;
  for (int i = 0; i < 2; ++i) {
    ids.push_back(trial.Create(AnyScope()));
    ASSERT_TRUE(trial.Compute(ids.back(), prompt, 64));
    orders.push_back(ShareableOrder(cache, ids.back(), 64));
    ASSERT_TRUE(cache.BeginCompaction(ids.back(), orders.back()).value());
    ASSERT_TRUE(cache.ContinueCompaction(ids.back(), 4));
  }
  EXPECT_FALSE(cache.FinishCompaction(ids[0], orders[0]).was_there);
  EXPECT_TRUE(cache.FinishCompaction(ids[1], orders[1]).was_there);
  cache.CheckInvariants();
  EXPECT_EQ(cache.segment_totals().segments, 1U);
  EXPECT_EQ(cache.segment_totals().compactions, 1U);
  ExpectSameRows(AllSeen(cache, ids[0]), AllSeen(cache, ids[1]));
  const SequenceId third = trial.Create(AnyScope());
  ASSERT_TRUE(trial.Compute(third, prompt, 64));
  EXPECT_FALSE(cache.BeginCompaction(third, ShareableOrder(cache, third, 64)).value())
      << "nothing is to be copied";
}

TEST(CompactionPiecesTest, NothingIsEvictedForASegmentThatDoesNotFit) {
  const Tokens known = Prompt(1, 49);
  const auto fill = [&](PrefixTrial* trial) {
    const SequenceId first = trial->Create(AnyScope());
    EXPECT_TRUE(trial->Compute(first, known, 48));
    trial->cache().Release(first);
    const SequenceId second = trial->Create(AnyScope());
    EXPECT_TRUE(trial->Compute(second, Prompt(2, 2 * kEnd + 1), 2 * kEnd));
    return second;
  };
  PrefixTrial ample(ThreeHeads());
  fill(&ample);
  PrefixTrial trial(ThreeHeads(), ample.cache().Balance().mapped_bytes + (64 << 10));
  KvCache& cache = trial.cache();
  const SequenceId id = fill(&trial);
  ASSERT_EQ(cache.FindPrefix({}, AnyScope(), known).tokens, 48);
  EXPECT_FALSE(cache.BeginCompaction(id, ShareableOrder(cache, id, 2 * kEnd)).value());
  EXPECT_EQ(cache.FindPrefix({}, AnyScope(), known).tokens, 48);
  cache.CheckInvariants();
}

TEST(CompactionPiecesTest, WhereTruncateTakesNothingOfItTheWorkGoesOn) {
  const auto cache = NewCacheOf(Cases()[0].geometry, Cases()[0].format);
  const SequenceId id = *cache->CreateSequence();
  AppendStamped(cache.get(), id, kEnd + 20, 1);
  const SeenCache before = AllSeen(*cache, id);
  const CompactionOrder order = OrderOf(*cache, id, kEnd, {Cases()[0].format}, KeepsHalf);
  ASSERT_TRUE(cache->BeginCompaction(id, order).value());
  ASSERT_TRUE(cache->Truncate(id, kEnd + 20).ok());
  while (!cache->ContinueCompaction(id, 3)) cache->CheckInvariants();
  cache->FinishCompaction(id, order);
  cache->CheckInvariants();
  ExpectSameRows(WithoutDropped(order, before), AllSeen(*cache, id));
}

TEST(CompactionPiecesTest, WithoutRoomBesideTheBlocksNothingBegins) {
  const FormatCase test = {{"f16", "f16"}, ThreeHeads()};
  const auto ample = NewCacheOf(test.geometry, test.format);
  const SequenceId filled = *ample->CreateSequence();
  AppendStamped(ample.get(), filled, 2 * kEnd, 1);
  const auto cache =
      NewCacheOf(test.geometry, test.format, ample->Balance().mapped_bytes + (64 << 10));
  const SequenceId id = *cache->CreateSequence();
  AppendStamped(cache.get(), id, 2 * kEnd, 1);
  const SeenCache before = AllSeen(*cache, id);
  const std::uint64_t mapped = cache->Balance().mapped_bytes;
  const CompactionOrder order = OrderOf(*cache, id, 2 * kEnd, {test.format}, KeepsHalf);
  EXPECT_FALSE(cache->BeginCompaction(id, order).value());
  cache->CheckInvariants();
  EXPECT_LE(cache->Balance().mapped_bytes, mapped + (32 << 10)) << "a size class may be new";
  EXPECT_EQ(cache->segment_totals().segments, 0U);
  ExpectSameRows(before, AllSeen(*cache, id));
}

}  // namespace
}  // namespace swiftkv
