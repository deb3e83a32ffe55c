// SPDX-License-Identifier: Apache-2.0
// Tests what cached blocks cost and when they go: eviction order, pins, pressure, dropping.
#include <gtest/gtest.h>

#include "cache/prefix_eviction.h"
#include "cache/prefix_trial.h"

namespace swiftkv {
namespace {

constexpr std::size_t kB = kPageTokens;
constexpr std::int64_t kBlock = kPageTokens;

// Reserves until the bound refuses, without writing; returns the tokens.
std::int64_t Fill(PrefixTrial* trial, SequenceId id) {
  int tokens = 0;
  while (trial->cache().Reserve(id, tokens + kPageTokens).ok()) tokens += kPageTokens;
  return tokens;
}

PrefixScope ScopeOf(const std::string& tenant_salt, const std::string& request_salt = "") {
  PrefixScope scope;
  scope.tenant_salt = tenant_salt;
  scope.request_salt = request_salt;
  return scope;
}

TEST(PrefixRetentionTest, ARequestMayHaveTheWholeBoundWhateverIsCached) {
  for (const TestGeometry& geometry : {OneSmallHead(), ThreeHeads(), ShortWindow()}) {
    PrefixTrial trial(geometry, 2 << 20);
    const SequenceId first = trial.Create();
    const std::int64_t empty = Fill(&trial, first);
    trial.cache().Release(first);
    for (std::uint32_t seed = 0; seed < 20; ++seed) trial.ServeOnce(Prompt(seed, 12 * kB));
    EXPECT_GT(trial.cache().Balance().cached_bytes, std::uint64_t{400} << 10);
    const SequenceId second = trial.Create();
    const std::int64_t full = Fill(&trial, second);
    EXPECT_EQ(full, empty) << geometry.name;
    EXPECT_EQ(trial.cache().Balance().cached_bytes, 0U);
    trial.cache().CheckInvariants();
  }
}

TEST(PrefixRetentionTest, ARequestThatCannotFitEvictsNothing) {
  PrefixTrial trial(ThreeHeads(), 2 << 20);
  for (std::uint32_t seed = 0; seed < 5; ++seed) trial.ServeOnce(Prompt(seed, 8 * kB));
  const KvBalance before = trial.cache().Balance();
  const SequenceId id = trial.Create();
  EXPECT_EQ(trial.cache().Reserve(id, 100000).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(trial.cache().Balance().cached_bytes, before.cached_bytes);
  EXPECT_EQ(trial.cache().prefix_counters().evicted_blocks, 0U);
}

TEST(PrefixRetentionTest, TheLongestUnusedGoesFirstAndItsLastBlocksBeforeTheOthers) {
  PrefixTrial trial(ThreeHeads(), 30 * 18432 + 100000);
  const Tokens a = Prompt(1, 8 * kB + 1);
  const Tokens b = Prompt(2, 8 * kB + 1);
  trial.ServeOnce(a);
  trial.ServeOnce(b);
  trial.ServeOnce(a);  // used again: b is older now
  const SequenceId id = trial.Create();
  std::int64_t left = 8 * kBlock;
  for (int tokens = kPageTokens; left > 0; tokens += kPageTokens) {
    ASSERT_TRUE(trial.cache().Reserve(id, tokens).ok());
    const PrefixHit hit = trial.Find(b);
    EXPECT_LE(hit.tokens, left);
    if (hit.tokens > 0 && hit.tokens < 8 * kBlock) {
      EXPECT_EQ(hit.end, PrefixEnd::kEvicted);
      EXPECT_EQ(trial.Find(a).tokens, 8 * kBlock);
    }
    left = hit.tokens;
  }
  trial.cache().CheckInvariants();
}

TEST(PrefixRetentionTest, ARequestNeverEvictsItsOwnHits) {
  PrefixTrial trial(OneSmallHead(), 64 << 10);
  for (int round = 0; round < 200; ++round) {
    const auto seed = static_cast<std::uint32_t>(round % 5);
    const Tokens prompt = Prompt(seed, 4 * kB + 20);
    const SequenceId id = trial.Create();
    trial.Serve(id, prompt);  // checks every row
    const std::int64_t rest = Fill(&trial, id);
    EXPECT_GT(rest, 0);
    trial.CheckRows(id, prompt, 0, 0);
    trial.cache().Release(id);
    ASSERT_FALSE(HasFailure()) << round;
  }
  EXPECT_GT(trial.cache().prefix_counters().evicted_blocks, 200U);
}

TEST(PrefixRetentionTest, PinnedBlocksAreNeverEvictedBeforeTheirTime) {
  PrefixTrial trial(ShortWindow(), 300 << 10);
  const Tokens pinned = Prompt(1, 6 * kB);
  EXPECT_EQ(trial.cache().PinPrefix({}, {}, pinned, 100).code(), StatusCode::kNotFound);
  trial.ServeOnce(pinned);
  trial.cache().SetTime(50);
  ASSERT_TRUE(trial.cache().PinPrefix({}, {}, pinned, 100).ok());
  EXPECT_LT(trial.cache().ReclaimableBytes(), trial.cache().Balance().cached_bytes);
  const SequenceId id = trial.Create();
  const std::int64_t with_pin = Fill(&trial, id);
  EXPECT_EQ(trial.Find(Join(pinned, {1})).tokens, 6 * kBlock);
  trial.cache().CheckInvariants();
  trial.cache().SetTime(99);
  EXPECT_FALSE(trial.cache().Reserve(id, static_cast<int>(with_pin) + kPageTokens).ok());
  trial.cache().SetTime(100);
  trial.cache().CheckInvariants();
  EXPECT_TRUE(trial.cache().Reserve(id, static_cast<int>(with_pin) + kPageTokens).ok());
  EXPECT_GT(Fill(&trial, id), with_pin + 4 * kBlock);
  EXPECT_EQ(trial.cache().ReclaimableBytes(), 0U);
  EXPECT_EQ(trial.Find(Join(pinned, {1})).tokens, 0);
  trial.cache().CheckInvariants();
}

TEST(PrefixRetentionTest, ALongerPinOutlivesAShorterOne) {
  PrefixTrial trial(OneSmallHead());
  const Tokens prompt = Prompt(1, 4 * kB);
  trial.ServeOnce(prompt);
  ASSERT_TRUE(trial.cache().PinPrefix({}, {}, prompt, 200).ok());
  ASSERT_TRUE(
      trial.cache().PinPrefix({}, {}, Tokens(prompt.begin(), prompt.begin() + 32), 300).ok());
  ASSERT_TRUE(trial.cache().PinPrefix({}, {}, prompt, 100).ok());
  trial.cache().SetTime(199);
  EXPECT_EQ(trial.cache().ReclaimableBytes(), 0U);
  trial.cache().SetTime(200);
  EXPECT_EQ(trial.cache().ReclaimableBytes(), 2U * 2048);
  trial.cache().CheckInvariants();
  trial.cache().SetTime(300);
  EXPECT_EQ(trial.cache().ReclaimableBytes(), 4U * 2048);
  trial.cache().CheckInvariants();
}

TEST(PrefixRetentionTest, UnpinningEndsOnePinAndLeavesOthersWhatTheyShareWithIt) {
  PrefixTrial trial(OneSmallHead());
  const Tokens prompt = Prompt(1, 4 * kB);
  const Tokens half(prompt.begin(), prompt.begin() + 32);
  trial.ServeOnce(prompt);
  EXPECT_EQ(trial.cache().UnpinPrefix({}, {}, prompt).code(), StatusCode::kNotFound);
  ASSERT_TRUE(trial.cache().PinPrefix({}, {}, prompt, 300).ok());
  ASSERT_TRUE(trial.cache().PinPrefix({}, {}, half, 200).ok());
  EXPECT_EQ(trial.cache().pinned_prefixes().prefixes, 2U);
  EXPECT_EQ(trial.cache().pinned_prefixes().blocks, 4U);
  EXPECT_EQ(trial.cache().UnpinPrefix({}, ScopeOf("other"), prompt).code(), StatusCode::kNotFound);
  EXPECT_EQ(trial.cache().UnpinPrefix({"int8", "int8"}, {}, prompt).code(), StatusCode::kNotFound);
  ASSERT_TRUE(trial.cache().UnpinPrefix({}, {}, prompt).ok());
  EXPECT_EQ(trial.cache().ReclaimableBytes(), 2U * 2048);
  EXPECT_EQ(trial.cache().pinned_prefixes().blocks, 2U);
  trial.cache().CheckInvariants();
  trial.cache().SetTime(200);
  EXPECT_EQ(trial.cache().ReclaimableBytes(), 4U * 2048);
  EXPECT_EQ(trial.cache().pinned_prefixes().prefixes, 0U);
  EXPECT_EQ(trial.cache().UnpinPrefix({}, {}, half).code(), StatusCode::kNotFound) << "over";
  trial.cache().CheckInvariants();
}

TEST(PrefixRetentionTest, PinningInAFullCacheNeverLosesWhatItPins) {
  PrefixTrial trial(OneSmallHead(), 64 << 10);
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const Tokens prompt = Prompt(seed, kB + kB * (seed % 3));
    const SequenceId id = trial.Create();
    if (!trial.Compute(id, prompt, prompt.size())) {
      trial.cache().Release(id);
      continue;
    }
    trial.cache().Release(id);
    const Status pinned = trial.cache().PinPrefix({}, {}, prompt, 1000);
    if (pinned.ok()) {
      EXPECT_EQ(trial.Find(Join(prompt, {1})).tokens, static_cast<std::int64_t>(prompt.size()));
    }
    trial.cache().CheckInvariants();
  }
  EXPECT_GT(trial.cache().pinned_prefixes().prefixes, 5U);
}

TEST(PrefixRetentionTest, DroppingAScopeForgetsItInEveryFormatAndNothingElse) {
  PrefixTrial trial(ShortWindow());
  const PrefixScope own = ScopeOf("a");
  const PrefixScope narrowed = ScopeOf("a", "b");
  const Tokens prompt = Prompt(1, 80);
  const Tokens whole(prompt.begin(), prompt.begin() + 48);
  trial.ServeOnce(prompt, own);
  trial.ServeOnce(prompt, narrowed);
  const SequenceId exact = *trial.cache().CreateSequence({"f32", "f32"}, own);
  trial.Serve(exact, prompt);
  trial.cache().Release(exact);
  ASSERT_TRUE(trial.cache().PinPrefix({}, own, whole, 9).ok());
  ASSERT_TRUE(trial.cache().PinPrefix({}, narrowed, whole, 9).ok());
  EXPECT_EQ(trial.cache().DropPrefixes(ScopeOf("ab")).blocks, 0U);
  const std::uint64_t cached = trial.cache().Balance().cached_bytes;
  const DroppedPrefixes dropped = trial.cache().DropPrefixes(own);
  EXPECT_EQ(dropped.blocks, 10U) << "five in each of two formats";
  EXPECT_GT(dropped.freed_bytes, 0U);
  EXPECT_EQ(trial.cache().Balance().cached_bytes, cached - dropped.freed_bytes);
  EXPECT_EQ(trial.Find(prompt, own).tokens, 0);
  EXPECT_EQ(trial.cache().FindPrefix({"f32", "f32"}, own, prompt).tokens, 0);
  EXPECT_EQ(trial.Find(prompt, narrowed).tokens, 79);
  EXPECT_EQ(trial.cache().pinned_prefixes().prefixes, 1U);
  trial.cache().CheckInvariants();
  EXPECT_EQ(trial.ServeOnce(prompt, own).tokens, 0);
  EXPECT_EQ(trial.ServeOnce(prompt, own).tokens, 79) << "and it is learnt again";
}

TEST(PrefixRetentionTest, DroppingForgetsEverythingAndLeavesLiveSequencesTheirFrames) {
  PrefixTrial trial(ShortWindow());
  const Tokens prompt = Prompt(1, 90);
  const SequenceId id = trial.Create();
  trial.Serve(id, prompt);
  trial.ServeOnce(Prompt(2, 90));
  ASSERT_TRUE(trial.cache().PinPrefix({}, {}, Tokens(prompt.begin(), prompt.begin() + 48), 9).ok());
  trial.cache().DropPrefixes();
  EXPECT_EQ(trial.cache().Balance().cached_bytes, 0U);
  EXPECT_EQ(trial.Find(prompt).end, PrefixEnd::kNeverSeen);
  trial.Check(id, prompt);
  const Tokens longer = Join(prompt, Prompt(3, 60));
  ASSERT_TRUE(trial.Compute(id, longer, longer.size()));
  EXPECT_EQ(trial.Find(longer).tokens, 0);
  trial.Check(id, longer);
  ASSERT_TRUE(trial.cache().Truncate(id, 0).ok());
  ASSERT_TRUE(trial.Compute(id, longer, longer.size()));
  EXPECT_EQ(trial.Find(longer).tokens, 144);
}

TEST(PrefixRetentionTest, FramesThatLeaveAWindowAreCachedAndShorterPromptsHitThem) {
  PrefixTrial trial(ShortWindow());
  const Tokens prompt = Prompt(1, 20 * kB);
  const SequenceId id = trial.Create();
  for (std::size_t end = kB; end <= prompt.size(); end += kB) {
    ASSERT_TRUE(trial.Compute(id, prompt, end));
  }
  EXPECT_EQ(trial.cache().Balance().cached_bytes, 18U * 6144) << "all but what the window sees";
  for (std::size_t blocks = 1; blocks < 20; ++blocks) {
    const Tokens shorter(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(blocks * kB));
    EXPECT_EQ(trial.ServeOnce(Join(shorter, {1, 2, 3})).tokens,
              static_cast<std::int64_t>(blocks * kB));
  }
}

TEST(PrefixRetentionTest, FramesThatLeftAWindowGoFirstAndCutShorterHitsOnly) {
  PrefixTrial trial(ShortWindow(), 600 << 10);
  const Tokens prompt = Prompt(1, 20 * kB);
  const SequenceId id = trial.Create();
  for (std::size_t end = kB; end <= prompt.size(); end += kB) {
    ASSERT_TRUE(trial.Compute(id, prompt, end));
  }
  trial.cache().Release(id);
  const SequenceId other = trial.Create();
  int tokens = 0;
  while (trial.cache().ReclaimableBytes() > 20U * 3072 + 2U * 6144) {
    ASSERT_TRUE(trial.cache().Reserve(other, tokens += kPageTokens).ok());
  }
  trial.cache().CheckInvariants();
  EXPECT_EQ(trial.cache().prefix_counters().evicted_blocks, 0U);
  EXPECT_EQ(trial.Find(Join(prompt, {1})).tokens, 20 * kBlock);
  const PrefixHit shorter = trial.Find(Join(Tokens(prompt.begin(), prompt.begin() + 161), {1}));
  EXPECT_EQ(shorter.tokens, 0);
  EXPECT_EQ(shorter.end, PrefixEnd::kEvicted);
}

TEST(PrefixRetentionTest, CostGrowsWithThePositionAsFarAsLayersSeeEverything) {
  EXPECT_DOUBLE_EQ(RecomputeCost(0, 1.0), 16);
  EXPECT_DOUBLE_EQ(RecomputeCost(512, 1.0), 32);
  EXPECT_DOUBLE_EQ(RecomputeCost(512, 0.25), 20);
  EXPECT_DOUBLE_EQ(RecomputeCost(512, 0.0), 16);
}

TEST(PrefixRetentionTest, SmallerFramesOfEqualCostStayLonger) {
  PrefixTrial trial(ThreeHeads(), 24 * 18432 + 100000);
  PrefixScope near;
  near.allowed = Quality::kNear;
  const Tokens prompt = Prompt(1, 6 * kB + 1);
  const SequenceId small = *trial.cache().CreateSequence({"int8", "int8"}, near);
  trial.Serve(small, prompt, 1000, 0, 0.02);
  trial.cache().Release(small);
  trial.ServeOnce(prompt);  // later, but twice the bytes
  const SequenceId id = trial.Create();
  for (int tokens = kPageTokens; trial.Find(prompt).tokens > 0; tokens += kPageTokens) {
    EXPECT_EQ(trial.cache().FindPrefix({"int8", "int8"}, near, prompt).tokens, 6 * kBlock);
    ASSERT_TRUE(trial.cache().Reserve(id, tokens).ok());
  }
  trial.cache().CheckInvariants();
}

}  // namespace
}  // namespace swiftkv
