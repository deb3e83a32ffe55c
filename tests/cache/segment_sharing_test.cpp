// SPDX-License-Identifier: Apache-2.0
// Shares segments between sequences: who finds which, what is computed on top, what is evicted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/segment_trial.h"

namespace swiftkv {
namespace {

using testing::EndsWith;

// Computes `tokens` up to `end`, compacts, and computes the rest on top, which `family` stands for.
SequenceId MakeSegment(PrefixTrial* trial, const Tokens& tokens, std::size_t end,
                       Keeps keeps = KeepsHalf, const char* recipe = kRecipe) {
  const SequenceId id = trial->Create(AnyScope());
  EXPECT_TRUE(trial->Compute(id, tokens, end));
  const auto result = trial->cache().Compact(
      id, ShareableOrder(trial->cache(), id, static_cast<std::int64_t>(end), keeps, recipe));
  EXPECT_TRUE(result.ok()) << result.status().message();
  EXPECT_TRUE(result->findable);
  if (end < tokens.size()) {
    EXPECT_TRUE(trial->Compute(id, tokens, tokens.size(), 7));
  }
  trial->cache().CheckInvariants();
  return id;
}

TEST(SegmentSharingTest, ASecondUserStandsOnTheSamePagesAndWhatIsComputedOnTop) {
  for (const TestGeometry& geometry :
       {ThreeHeads(), OneSmallHead(), ShortWindow(), EqualFrames(), LongWindow()}) {
    PrefixTrial trial(geometry);
    KvCache& cache = trial.cache();
    const Tokens prompt = Prompt(1, 112);
    const SequenceId first = MakeSegment(&trial, prompt, 64);
    const std::uint64_t before = cache.Balance().mapped_bytes;
    const SequenceId second = trial.Create(AnyScope());
    EXPECT_EQ(cache.FindSegment({}, AnyScope(), prompt, kRecipe), 64) << geometry.name;
    ASSERT_EQ(cache.AdoptSegment(second, prompt, kRecipe).value(), 64);
    const PrefixHit hit = cache.AdoptPrefix(second, prompt).value();
    EXPECT_EQ(hit.tokens, 111) << "two blocks and a part of what the first computed on top";
    EXPECT_EQ(hit.grade, Quality::kAny);
    cache.CheckInvariants();
    EXPECT_GT(cache.Balance().live_shared_bytes, 0U);
    EXPECT_LT(cache.Balance().mapped_bytes, before + 64 * 1024);
    SeenCache seen = AllSeen(cache, first);
    for (auto& [where, rows] : seen) rows.erase(111);
    ExpectSameRows(seen, AllSeen(cache, second));
    cache.Release(first);
    cache.CheckInvariants();
    ExpectSameRows(seen, AllSeen(cache, second));
  }
}

TEST(SegmentSharingTest, ExactAndNearReadersAndOtherScopesRecipesAndFormatsNeverFindIt) {
  PrefixTrial trial(ThreeHeads());
  KvCache& cache = trial.cache();
  const Tokens prompt = Prompt(2, 80);
  cache.Release(MakeSegment(&trial, prompt, 64));
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), prompt, kRecipe), 64);
  for (const Quality level : {Quality::kExact, Quality::kNear}) {
    PrefixScope scope;
    scope.allowed = level;
    EXPECT_EQ(cache.FindSegment({}, scope, prompt, kRecipe), 0);
    const SequenceId id = trial.Create(scope);
    EXPECT_EQ(cache.AdoptSegment(id, prompt, kRecipe).value(), 0);
    EXPECT_EQ(trial.Serve(id, prompt).tokens, level == Quality::kExact ? 64 : 79)
        << "dense blocks it does find";
    EXPECT_EQ(cache.SegmentEnd(id), 0);
    cache.Release(id);
  }
  PrefixScope other = AnyScope();
  other.tenant_salt = "x";
  EXPECT_EQ(cache.FindSegment({}, other, prompt, kRecipe), 0);
  other = AnyScope();
  other.share = false;
  EXPECT_EQ(cache.FindSegment({}, other, prompt, kRecipe), 0);
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), prompt, "other recipe"), 0);
  EXPECT_EQ(cache.FindSegment({"int8", "int8"}, AnyScope(), prompt, kRecipe), 0);
  Tokens differs = prompt;
  differs[63] += 1;
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), differs, kRecipe), 0);
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), std::span(prompt).first(64), kRecipe), 0)
      << "the last token is always computed";
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), std::span(prompt).first(65), kRecipe), 64);
}

TEST(SegmentSharingTest, WhatIsComputedOnTopIsFoundByWayOfTheSegmentAlone) {
  PrefixTrial trial(ThreeHeads());
  KvCache& cache = trial.cache();
  const Tokens prompt = Prompt(3, 130);
  MakeSegment(&trial, prompt, 64);
  MakeSegment(&trial, prompt, 64, KeepsRagged, "ragged");
  // The dense beginning is known, what follows it only on top of segments.
  EXPECT_EQ(trial.Find(prompt, AnyScope()).tokens, 64);
  const SequenceId dense = trial.Create();
  EXPECT_EQ(trial.Serve(dense, prompt).tokens, 64);
  EXPECT_EQ(trial.Find(prompt, AnyScope()).tokens, 128);
  EXPECT_EQ(cache.segment_totals().findable, 2U);
}

TEST(SegmentSharingTest, TheLongestSegmentOfAPromptIsTaken) {
  PrefixTrial trial(ThreeHeads());
  KvCache& cache = trial.cache();
  const Tokens prompt = Prompt(4, 200);
  MakeSegment(&trial, Tokens(prompt.begin(), prompt.begin() + 48), 48);
  MakeSegment(&trial, Tokens(prompt.begin(), prompt.begin() + 112), 112);
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), prompt, kRecipe), 112);
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), std::span(prompt).first(112), kRecipe), 48);
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), std::span(prompt).first(48), kRecipe), 0);
}

TEST(SegmentSharingTest, TheSameCompactionTwiceGivesOneSegment) {
  PrefixTrial trial(ThreeHeads());
  KvCache& cache = trial.cache();
  const Tokens prompt = Prompt(5, 96);
  const SequenceId first = MakeSegment(&trial, prompt, 96);
  const SequenceId second = trial.Create(AnyScope());
  ASSERT_TRUE(trial.Compute(second, prompt, 96));
  const auto result = cache.Compact(second, ShareableOrder(cache, second, 96));
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->was_there);
  cache.CheckInvariants();
  EXPECT_EQ(cache.segment_totals().segments, 1U);
  ExpectSameRows(AllSeen(cache, first), AllSeen(cache, second));
}

TEST(SegmentSharingTest, WithTokensBehindItTheMakerGoesOnUnseenAndOthersDoNot) {
  PrefixTrial trial(ThreeHeads());
  KvCache& cache = trial.cache();
  const Tokens prompt = Prompt(6, 150);
  const SequenceId first = trial.Create(AnyScope());
  ASSERT_TRUE(trial.Compute(first, prompt, 100));  // 36 tokens are dense, not computed on top
  ASSERT_TRUE(cache.Compact(first, ShareableOrder(cache, first, 64))->findable);
  ASSERT_TRUE(trial.Compute(first, prompt, 150));
  const SequenceId second = trial.Create(AnyScope());
  ASSERT_EQ(cache.AdoptSegment(second, prompt, kRecipe).value(), 64);
  EXPECT_EQ(cache.AdoptPrefix(second, prompt)->tokens, 64);
  ASSERT_TRUE(trial.Compute(second, prompt, 150));
  const SequenceId third = trial.Create(AnyScope());
  ASSERT_EQ(cache.AdoptSegment(third, prompt, kRecipe).value(), 64);
  EXPECT_EQ(cache.AdoptPrefix(third, prompt)->tokens, 144);
  cache.CheckInvariants();
}

TEST(SegmentSharingTest, BudgetedCompactionsAreFoundByNobody) {
  PrefixTrial trial(ThreeHeads());
  KvCache& cache = trial.cache();
  const Tokens prompt = Prompt(7, 128);
  const SequenceId id = trial.Create(AnyScope());
  ASSERT_TRUE(trial.Compute(id, prompt, 64));
  CompactionOrder order = ShareableOrder(cache, id, 64);
  order.shareable = false;
  EXPECT_FALSE(cache.Compact(id, order)->findable);
  ASSERT_TRUE(trial.Compute(id, prompt, 128));
  order = ShareableOrder(cache, id, 128);  // over a segment
  EXPECT_FALSE(cache.Compact(id, order)->findable);
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), Join(prompt, {1}), kRecipe), 0);
  EXPECT_EQ(trial.Find(prompt, AnyScope()).tokens, 64) << "what was dense before stays findable";
  cache.CheckInvariants();
}

TEST(SegmentSharingTest, IdleSegmentsAreCachedAndGoWhenMemoryIsWanted) {
  PrefixTrial trial(ThreeHeads(), 4 << 20);
  KvCache& cache = trial.cache();
  const Tokens prompt = Prompt(8, 96);
  cache.Release(MakeSegment(&trial, prompt, 96));
  cache.CheckInvariants();
  KvBalance balance = cache.Balance();
  EXPECT_EQ(balance.live_private_bytes + balance.live_shared_bytes, 0U);
  EXPECT_EQ(balance.cached_bytes, 6 * 18432U + 3 * 9 * 2048U) << "dense blocks and the segment";
  EXPECT_EQ(cache.ReclaimableBytes(), balance.cached_bytes);
  EXPECT_EQ(cache.segment_totals().idle, 1U);
  const SequenceId big = trial.Create();
  for (int tokens = 0; cache.segment_totals().idle == 1; tokens += 64) {
    ASSERT_TRUE(cache.Reserve(big, 64).ok()) << tokens;
    cache.Commit(big, 64);
  }
  EXPECT_EQ(cache.segment_totals().evictions, 1U);
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), Join(prompt, {1}), kRecipe), 0);
  cache.CheckInvariants();
}

TEST(SegmentSharingTest, PinnedSegmentsAndThoseInUseStayThroughPressure) {
  PrefixTrial trial(ThreeHeads(), 4 << 20);
  KvCache& cache = trial.cache();
  const Tokens pinned = Prompt(9, 96);
  const Tokens used = Prompt(10, 96);
  cache.Release(MakeSegment(&trial, pinned, 96));
  const SequenceId user = MakeSegment(&trial, used, 96);
  const SeenCache seen = AllSeen(cache, user);
  ASSERT_TRUE(cache.PinSegment({}, AnyScope(), pinned, kRecipe, 500).ok());
  EXPECT_THAT(cache.PinSegment({}, AnyScope(), Prompt(11, 96), kRecipe, 500).message(),
              EndsWith("ends at: 96"));
  const SequenceId big = trial.Create();
  while (cache.Reserve(big, 64).ok()) cache.Commit(big, 64);
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), Join(pinned, {1}), kRecipe), 96);
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), Join(used, {1}), kRecipe), 96);
  ExpectSameRows(seen, AllSeen(cache, user));
  cache.SetTime(500);
  while (cache.Reserve(big, 16).ok()) cache.Commit(big, 16);
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), Join(pinned, {1}), kRecipe), 0);
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), Join(used, {1}), kRecipe), 96);
  cache.CheckInvariants();
}

TEST(SegmentSharingTest, DroppingPrefixesForgetsSegmentsOfTheScope) {
  PrefixTrial trial(ShortWindow());
  KvCache& cache = trial.cache();
  const Tokens prompt = Prompt(12, 120);
  const SequenceId user = MakeSegment(&trial, prompt, 96);
  const SeenCache seen = AllSeen(cache, user);
  PrefixScope other = AnyScope();
  other.tenant_salt = "other";
  cache.DropPrefixes(other);
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), prompt, kRecipe), 96);
  EXPECT_GT(cache.DropPrefixes(AnyScope()).blocks, 0U);
  EXPECT_EQ(cache.FindSegment({}, AnyScope(), prompt, kRecipe), 0);
  cache.CheckInvariants();
  ExpectSameRows(seen, AllSeen(cache, user));
  cache.Release(user);
  cache.CheckInvariants();
  EXPECT_EQ(cache.segment_totals().segments, 0U);
}

// Rounds over a few prompts in a pool that holds few of them: hits are what they claim to be, and
// a request never evicts what it has just found.
TEST(SegmentSharingTest, TwoHundredRoundsOverFivePromptsUnderPressure) {
  PrefixTrial trial(ThreeHeads(), 1 << 20);
  KvCache& cache = trial.cache();
  int hits = 0;
  for (int round = 0; round < 200; ++round) {
    const Tokens prompt = Prompt(20 + static_cast<std::uint32_t>(round % 5), 130);
    const SequenceId id = trial.Create(AnyScope());
    const auto found = cache.AdoptSegment(id, prompt, kRecipe);
    if (found.ok() && *found > 0) {
      ASSERT_EQ(*found, 96);
      ++hits;
    } else {
      ASSERT_TRUE(cache.AdoptPrefix(id, prompt).ok());
      if (cache.Length(id) > 96) {
        cache.Release(id);
        continue;
      }
      ASSERT_TRUE(trial.Compute(id, prompt, 96));
      const auto made = cache.Compact(id, ShareableOrder(cache, id, 96));
      ASSERT_TRUE(made.ok()) << made.status().message();
    }
    const std::vector<std::uint32_t> seeds = ContextSeeds(prompt);
    for (const auto& [where, rows] : AllSeen(cache, id)) {
      ASSERT_EQ(rows.size(), 48U);
      for (const auto& [position, row] : rows) {
        std::vector<float> expected =
            RowOf(seeds[static_cast<std::size_t>(position)], where.first, 32, true);
        const std::vector<float> value =
            RowOf(seeds[static_cast<std::size_t>(position)], where.first, 32, false);
        expected.insert(expected.end(), value.begin(), value.end());
        ASSERT_EQ(row, expected) << "round " << round << " position " << position;
      }
    }
    ASSERT_TRUE(trial.Compute(id, prompt, 130, 7));
    cache.CheckInvariants();
    cache.Release(id);
  }
  EXPECT_GT(hits, 20);
}

}  // namespace
}  // namespace swiftkv
