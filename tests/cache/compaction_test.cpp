// SPDX-License-Identifier: Apache-2.0
// Compacts sequences of all formats and shapes and compares every row that is left, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/constant_rows.h"
#include "cache/equal_balances.h"
#include "cache/segment_trial.h"

namespace swiftkv {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

const std::vector<FormatCase>& Cases() {
  static const std::vector<FormatCase> cases = {
      {{"f16", "f16"}, ThreeHeads()},    {{"f16", "f16"}, OneSmallHead()},
      {{"f16", "f16"}, ShortWindow()},   {{"f16", "f16"}, EqualFrames()},
      {{"bf16", "f16"}, ThreeHeads()},   {{"int8", "int8"}, ThreeHeads()},
      {{"int8", "int8"}, ShortWindow()}, {{"fp8_e4m3", "fp8_e5m2"}, ThreeHeads()},
      {{"int8", "int4"}, SixLayers()},   {{"int4", "int4"}, SixLayers()},
      {{"int4", "int4"}, LongWindow()},  {{"f32", "f32"}, EqualFrames()},
  };
  return cases;
}

TEST(CompactionTest, WhatIsKeptStaysBitForBitAndTheRestIsGone) {
  for (const FormatCase& test : Cases()) {
    for (const Keeps keeps : {KeepsAll, KeepsHalf, KeepsRagged, KeepsNone}) {
      for (const auto& [length, end] : {std::pair(333, 320), {336, 336}, {333, 160}, {16, 16}}) {
        const auto cache = NewCacheOf(test.geometry, test.format);
        const SequenceId id = *cache->CreateSequence();
        AppendStamped(cache.get(), id, length, 1);
        const SeenCache before = AllSeen(*cache, id);
        const CompactionOrder order = OrderOf(*cache, id, end, {test.format}, keeps);
        const auto result = cache->Compact(id, order);
        ASSERT_TRUE(result.ok()) << result.status().message();
        cache->CheckInvariants();
        EXPECT_EQ(cache->Length(id), length);
        EXPECT_EQ(cache->SegmentEnd(id), end);
        EXPECT_TRUE(result->in_place);
        ExpectSameRows(WithoutDropped(order, before), AllSeen(*cache, id));
        if (HasFailure()) FAIL() << test.geometry.name << " " << test.format.key << " " << length;
        cache->Release(id);
        cache->CheckInvariants();
        EXPECT_EQ(cache->Balance().live_private_bytes, 0U);
      }
    }
  }
}

TEST(CompactionTest, LaterTokensStandAtTheirLogicalPositions) {
  for (const FormatCase& test : Cases()) {
    const auto cache = NewCacheOf(test.geometry, test.format);
    const SequenceId id = *cache->CreateSequence();
    AppendStamped(cache.get(), id, 200, 1);
    const CompactionOrder order = OrderOf(*cache, id, 192, {test.format}, KeepsRagged);
    const SeenCache kept = WithoutDropped(order, AllSeen(*cache, id));
    ASSERT_TRUE(cache->Compact(id, order).ok());
    for (int i = 0; i < 40; ++i) AppendStamped(cache.get(), id, 7, 1000);
    cache->CheckInvariants();
    EXPECT_EQ(cache->Length(id), 480);
    const SeenCache seen = AllSeen(*cache, id);
    for (const auto& [where, rows] : seen) {
      if (cache->layer(where.first).window != 0) continue;
      EXPECT_EQ(rows.rbegin()->first, 479);
      std::size_t old = 0;
      for (const auto& [position, row] : rows) {
        if (position >= 192) continue;
        ++old;
        ASSERT_EQ(row, kept.at(where).at(position));
      }
      std::size_t expected = 0;
      for (const auto& row : kept.at(where)) expected += row.first < 192 ? 1 : 0;
      EXPECT_EQ(old, expected);
      EXPECT_EQ(rows.size() - old, 480U - 192) << "every later token is there";
    }
  }
}

TEST(CompactionTest, ASecondCompactionTakesWhatTheFirstKeptAndTheTailBehindIt) {
  for (const FormatCase& test : Cases()) {
    const auto cache = NewCacheOf(test.geometry, test.format);
    const SequenceId id = *cache->CreateSequence();
    AppendStamped(cache.get(), id, 250, 1);
    ASSERT_TRUE(cache->Compact(id, OrderOf(*cache, id, 240, {test.format}, KeepsRagged)).ok());
    for (int round = 0; round < 4; ++round) {
      AppendStamped(cache.get(), id, 90, 1000U * static_cast<std::uint32_t>(round + 1));
      const SeenCache before = AllSeen(*cache, id);
      const std::int64_t end = cache->Length(id) / kPageTokens * kPageTokens - 16 * (round % 2);
      const CompactionOrder order =
          OrderOf(*cache, id, end, {test.format, test.format}, KeepsMixed);
      CompactionOrder first_only = order;
      for (KeptHead& head : first_only.heads) head.positions.resize(1);
      first_only.formats.resize(1);
      const auto result = cache->Compact(id, first_only);
      ASSERT_TRUE(result.ok()) << result.status().message();
      cache->CheckInvariants();
      EXPECT_EQ(cache->segment_totals().segments, 1U);
      // In formats of few bits what was int8 in the old segment may be int4 in the new one.
      const bool seals = test.format.value == "int4";
      ExpectSameRows(WithoutDropped(first_only, before), AllSeen(*cache, id), seals ? 0.3 : 0);
    }
  }
}

CompactionOrder HalfOrder(const KvCache& cache, SequenceId id, std::int64_t end) {
  return OrderOf(cache, id, end, {{"f16", "f16"}}, KeepsHalf);
}

TEST(CompactionTest, MixedPrecisionKeepsImportantTokensExactAndOthersInFewerBits) {
  const auto cache = NewCacheOf(SixLayers(), {"f16", "f16"});
  const SequenceId id = *cache->CreateSequence();
  AppendStamped(cache.get(), id, 500, 1);
  const SeenCache before = AllSeen(*cache, id);
  for (const auto& [format, tolerance] :
       {std::pair(KvFormat{"int8", "int8"}, 0.02), {KvFormat{"int4", "int4"}, 0.3}}) {
    const SequenceId child = *cache->Fork(id);
    const CompactionOrder order = OrderOf(*cache, child, 496, {{"f16", "f16"}, format}, KeepsMixed);
    ASSERT_TRUE(cache->Compact(child, order).ok());
    cache->CheckInvariants();
    const SeenCache expected = WithoutDropped(order, before);
    const SeenCache seen = AllSeen(*cache, child);
    ExpectSameRows(expected, seen, tolerance);
    for (const KeptHead& head : order.heads) {
      for (const std::int32_t position : head.positions[0]) {
        const std::pair where(head.layer, head.head);
        ASSERT_EQ(seen.at(where).at(position), expected.at(where).at(position));
      }
    }
    EXPECT_LT(cache->bits_per_value(child), 16);
    cache->Release(child);
  }
}

TEST(CompactionTest, GuardRailsKeepSinksNewestTokensAndOuterLayersAtEightBits) {
  const auto cache = NewCacheOf(SixLayers(), {"int4", "int4"});
  const SequenceId id = *cache->CreateSequence();
  AppendStamped(cache.get(), id, 400, 1);
  ASSERT_TRUE(cache->Compact(id, OrderOf(*cache, id, 400, {{"int4", "int4"}}, KeepsHalf)).ok());
  std::vector<PageRun> runs;
  for (int layer = 0; layer < 6; ++layer) {
    runs.clear();
    cache->AppendRuns(id, layer, 0, &runs);
    const bool is_outer = layer < 2 || layer > 3;
    EXPECT_EQ(runs.size(), is_outer ? 2U : 4U) << "heads times formats";
    for (const PageRun& run : runs) {
      for (int t = 0; t < run.num_tokens; ++t) {
        const bool is_guarded = is_outer || run.positions[t] < 16 || run.positions[t] >= 272;
        ASSERT_EQ(run.format.key->info().bits_per_value, is_guarded ? 8 : 4)
            << "layer " << layer << " position " << run.positions[t];
      }
    }
  }
}

TEST(CompactionTest, BadOrdersAreRefusedByTheirValueAndChangeNothing) {
  const auto cache = NewCacheOf(ShortWindow(), {"f16", "f16"});
  const SequenceId id = *cache->CreateSequence();
  AppendStamped(cache.get(), id, 100, 1);
  const CompactionOrder good = HalfOrder(*cache, id, 96);
  const KvBalance before = cache->Balance();
  const auto refusal = [&](const auto& spoil) {
    CompactionOrder order = good;
    spoil(&order);
    const auto result = cache->Compact(id, order);
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    ExpectSameBalance(before, cache->Balance());
    cache->CheckInvariants();
    return result.status().message();
  };
  for (const std::int64_t end : {-16, 0, 8, 97, 112}) {
    EXPECT_THAT(refusal([&](auto* order) { order->end = end; }),
                EndsWith("not: " + std::to_string(end)));
  }
  EXPECT_THAT(refusal([](auto* order) { order->formats.clear(); }), EndsWith("not: 0"));
  EXPECT_THAT(refusal([](auto* order) { order->formats[0].key = "int3"; }), EndsWith("int3"));
  EXPECT_THAT(refusal([](auto* order) { order->heads.pop_back(); }), EndsWith("not: 0"));
  EXPECT_THAT(refusal([](auto* order) { order->heads.push_back(order->heads[0]); }),
              HasSubstr("twice"));
  EXPECT_THAT(refusal([](auto* order) { order->heads[0].layer = 0; }), EndsWith("head: 0"));
  EXPECT_THAT(refusal([](auto* order) { order->heads[0].head = 1; }), EndsWith("head: 1"));
  EXPECT_THAT(refusal([](auto* order) { order->heads[0].positions[0].push_back(96); }),
              EndsWith("not: 96"));
  EXPECT_THAT(refusal([](auto* order) { order->heads[0].positions[0][1] = 0; }),
              EndsWith("not: 0"));
  EXPECT_THAT(refusal([](auto* order) { order->heads[0].positions.push_back({}); }),
              EndsWith("not: 2"));
  ASSERT_TRUE(cache->Compact(id, good).ok());
  EXPECT_TRUE(cache->Compact(id, good).ok()) << "nothing more is dropped";
  CompactionOrder gone = HalfOrder(*cache, id, 96);
  gone.heads[0].positions[0][1] = 3;  // dropped before
  EXPECT_THAT(cache->Compact(id, gone).status().message(), EndsWith("not: 3"));
}

TEST(CompactionTest, OneFormatInTwoListsHoldsEachPositionOnce) {
  const auto cache = NewCacheOf(OneSmallHead(), {"f16", "f16"});
  const SequenceId id = *cache->CreateSequence();
  AppendStamped(cache.get(), id, 64, 1);
  CompactionOrder order = OrderOf(*cache, id, 64, {{"f16", "f16"}, {"f16", "f16"}}, KeepsMixed);
  const SeenCache expected = WithoutDropped(order, AllSeen(*cache, id));
  const CompactionOrder good = order;
  order.heads[0].positions[1] = order.heads[0].positions[0];
  EXPECT_EQ(cache->Compact(id, order).status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(cache->Compact(id, good).ok());
  std::vector<PageRun> runs;
  cache->AppendRuns(id, 0, 0, &runs);
  EXPECT_EQ(runs.size(), 1U);
  ExpectSameRows(expected, AllSeen(*cache, id));
}

TEST(CompactionTest, CutsReachTheSegmentsEndOrNothing) {
  const auto cache = NewCacheOf(ThreeHeads(), {"f16", "f16"});
  const SequenceId id = *cache->CreateSequence();
  AppendStamped(cache.get(), id, 100, 1);
  ASSERT_TRUE(cache->Compact(id, HalfOrder(*cache, id, 80)).ok());
  EXPECT_EQ(cache->Truncate(id, 79).code(), StatusCode::kUnsupported);
  EXPECT_EQ(cache->Length(id), 100);
  ASSERT_TRUE(cache->Truncate(id, 80).ok());
  cache->CheckInvariants();
  AppendStamped(cache.get(), id, 30, 500);
  EXPECT_EQ(cache->KeptTokens(id), 40 + 30);
  ASSERT_TRUE(cache->Truncate(id, 0).ok());
  cache->CheckInvariants();
  EXPECT_EQ(cache->SegmentEnd(id), 0);
  EXPECT_EQ(cache->segment_totals().segments, 0U);
  AppendStamped(cache.get(), id, 30, 900);
  EXPECT_EQ(AllSeen(*cache, id).at({0, 0}).size(), 30U);
}

TEST(CompactionTest, ForksStandOnOneSegmentUntilOneIsCompactedFurther) {
  const auto cache = NewCacheOf(ThreeHeads(), {"f16", "f16"});
  const SequenceId id = *cache->CreateSequence();
  AppendStamped(cache.get(), id, 160, 1);
  ASSERT_TRUE(cache->Compact(id, HalfOrder(*cache, id, 160)).ok());
  const std::uint64_t bytes = cache->Balance().live_private_bytes;
  const SequenceId child = *cache->Fork(id);
  EXPECT_EQ(cache->Balance().live_private_bytes, 0U);
  EXPECT_EQ(cache->Balance().live_shared_bytes, bytes);
  EXPECT_EQ(cache->HeldBytes(child), bytes);
  const SeenCache seen = AllSeen(*cache, id);
  AppendStamped(cache.get(), child, 32, 700);
  const auto again =
      cache->Compact(child, OrderOf(*cache, child, 192, {{"int8", "int8"}}, KeepsHalf));
  ASSERT_TRUE(again.ok());
  cache->CheckInvariants();
  ExpectSameRows(seen, AllSeen(*cache, id));
  EXPECT_EQ(cache->segment_totals().segments, 2U);
  cache->Release(id);
  EXPECT_EQ(cache->segment_totals().segments, 1U);
  cache->CheckInvariants();
}

TEST(CompactionTest, AFormatCountsWhatItReallyTakes) {
  const auto cache = NewCacheOf(ThreeHeads(), {"f16", "f16"});
  EXPECT_EQ(*cache->KeptPageBytes({"f16", "f16"}, 0), 2048U + 64);
  EXPECT_EQ(*cache->KeptPageBytes({"int8", "int8"}, 0), 64U + 1024 + 64);
  EXPECT_FALSE(cache->KeptPageBytes({"int9", "int8"}, 0).ok());
  const SequenceId id = *cache->CreateSequence();
  AppendStamped(cache.get(), id, 320, 1);
  EXPECT_EQ(cache->HeldBytes(id), 20U * 9 * 2048);
  const auto result = cache->Compact(id, HalfOrder(*cache, id, 320));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->source_bytes, 20U * 9 * 2048);
  EXPECT_EQ(result->kept_tokens, 9 * 160);
  EXPECT_EQ(result->dropped_tokens, 9 * 160);
  EXPECT_EQ(result->kept_bytes, 10U * 9 * 2048 + 9 * 160 * 4);
  EXPECT_EQ(cache->HeldBytes(id), 10U * 9 * 2048);
  EXPECT_EQ(cache->bits_per_value(id), 16);
  EXPECT_EQ(cache->format_name(id), "f16");
}

}  // namespace
}  // namespace swiftkv
