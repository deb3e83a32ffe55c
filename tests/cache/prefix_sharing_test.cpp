// SPDX-License-Identifier: Apache-2.0
// Tests what sequences find of each other's blocks, and what they must not.
#include "swiftkv/prefix_sharing.h"

#include "cache/prefix_trial.h"

namespace swiftkv {
namespace {

constexpr std::int64_t kB = kPageTokens;

TEST(PrefixSharingTest, ACommittedBlockIsFoundByOthersAndStoredOnce) {
  PrefixTrial trial(ThreeHeads());
  const Tokens prompt = Prompt(1, 8 * kB + 5);
  const SequenceId first = trial.Create();
  EXPECT_EQ(trial.Serve(first, prompt).tokens, 0);
  const std::uint64_t before = trial.cache().Balance().live_private_bytes;
  const SequenceId second = trial.Create();
  const auto hit = trial.cache().AdoptPrefix(second, prompt);
  ASSERT_TRUE(hit.ok());
  EXPECT_EQ(hit->tokens, 8 * kB);
  EXPECT_EQ(hit->end, PrefixEnd::kNeverSeen);
  trial.Check(second, prompt);
  EXPECT_EQ(trial.cache().Balance().live_shared_bytes, 8U * 18432);
  EXPECT_EQ(trial.cache().Balance().live_private_bytes, before - 8U * 18432);
}

TEST(PrefixSharingTest, ReleasedBlocksStayAsCachedOnesAndAreFoundAgain) {
  PrefixTrial trial(ThreeHeads());
  const Tokens prompt = Prompt(1, 100);
  EXPECT_EQ(trial.ServeOnce(prompt).tokens, 0);
  EXPECT_EQ(trial.cache().Balance().cached_bytes, 6U * 18432);
  EXPECT_EQ(trial.cache().ReclaimableBytes(), 6U * 18432);
  EXPECT_EQ(trial.cache().Balance().live_private_bytes, 0U);
  const SequenceId id = trial.Create();
  EXPECT_EQ(trial.Serve(id, prompt).tokens, 96);
  EXPECT_EQ(trial.cache().Balance().cached_bytes, 0U);
  EXPECT_EQ(trial.cache().ReclaimableBytes(), 0U);
  trial.cache().Release(id);
}

TEST(PrefixSharingTest, PromptsOfEveryLengthHitAllButTheLastToken) {
  for (const std::int64_t length : {kB - 1, kB, kB + 1, 2 * kB - 1, 2 * kB, 2 * kB + 1, 8 * kB}) {
    PrefixTrial trial(ShortWindow());
    const Tokens prompt = Prompt(3, static_cast<std::size_t>(length));
    EXPECT_EQ(trial.ServeOnce(prompt).tokens, 0);
    for (int round = 0; round < 3; ++round) {
      const PrefixHit hit = trial.ServeOnce(prompt);
      // Only whole blocks are found, of the last of which the last token is computed again.
      const std::int64_t known = length / kB * kB;
      EXPECT_EQ(hit.tokens, std::min(known, length - 1)) << length;
      EXPECT_EQ(hit.end, known >= length - 1 ? PrefixEnd::kWholePrompt : PrefixEnd::kNeverSeen);
    }
  }
}

TEST(PrefixSharingTest, APartialTailIsCopiedAndEachWriterKeepsItsOwn) {
  for (const std::size_t rest : {1U, 5U, 15U}) {
    PrefixTrial trial(EqualFrames());
    const Tokens base = Prompt(4, 2 * kB + rest);
    const Tokens longer = Join(base, Prompt(5, 40));
    const SequenceId first = trial.Create();
    trial.Serve(first, longer);
    const Tokens other = Join(base, Prompt(6, 30));
    const SequenceId second = trial.Create();
    const PrefixHit hit = trial.Serve(second, other);
    EXPECT_EQ(hit.tokens, static_cast<std::int64_t>(base.size())) << rest;
    EXPECT_EQ(hit.end, PrefixEnd::kTokenDiffers);
    EXPECT_EQ(hit.differs_at, static_cast<std::int64_t>(base.size()));
    EXPECT_EQ(trial.cache().prefix_counters().copied_tail_tokens, rest);
    trial.Check(first, longer);
    trial.Check(second, other);
  }
}

TEST(PrefixSharingTest, FindingChangesNothing) {
  PrefixTrial trial(ShortWindow());
  const Tokens prompt = Prompt(1, 70);
  trial.ServeOnce(prompt);
  const KvBalance before = trial.cache().Balance();
  const PrefixHit hit = trial.Find(Join(prompt, {1, 2, 3}));
  EXPECT_EQ(hit.tokens, 64);
  EXPECT_EQ(trial.cache().Balance().cached_bytes, before.cached_bytes);
  EXPECT_EQ(trial.cache().Balance().mapped_bytes, before.mapped_bytes);
  EXPECT_EQ(trial.cache().prefix_counters().hit_tokens, 0U);
  EXPECT_EQ(trial.cache().FindPrefix({"int8", "int8"}, {}, prompt).tokens, 0);
}

TEST(PrefixSharingTest, NothingIsFoundBeforeItIsCommitted) {
  PrefixTrial trial(OneSmallHead());
  const Tokens prompt = Prompt(1, 64);
  const SequenceId id = trial.Create();
  ASSERT_TRUE(trial.cache().Reserve(id, 64).ok());
  EXPECT_EQ(trial.Find(prompt).tokens, 0);
  trial.Store(id, prompt, 0, 64);
  EXPECT_EQ(trial.Find(prompt).tokens, 0);
  trial.cache().Commit(id, std::span(prompt).first(40));
  EXPECT_EQ(trial.Find(prompt).tokens, 32);
  trial.cache().Release(id);
  EXPECT_EQ(trial.Find(prompt).tokens, 32) << "an aborted prefill leaves what it had computed";
  trial.ServeOnce(prompt);
}

TEST(PrefixSharingTest, PromptsThatArriveTogetherUseEachOthersPrefill) {
  PrefixTrial trial(ShortWindow());
  const Tokens header = Prompt(7, 8 * kB);
  std::vector<SequenceId> ids;
  std::vector<Tokens> prompts;
  for (std::uint32_t i = 0; i < 8; ++i) {
    ids.push_back(trial.Create());
    prompts.push_back(Join(header, Prompt(100 + i, 20)));
    EXPECT_EQ(trial.cache().AdoptPrefix(ids[i], prompts[i])->tokens, 0);
  }
  // All compute the same chunk in the same step; the others take the first one's copy.
  for (std::size_t i = 0; i < ids.size(); ++i) ASSERT_TRUE(trial.Compute(ids[i], prompts[i], 40));
  EXPECT_EQ(trial.cache().prefix_counters().published_blocks, 2U);
  // Then the first goes ahead, and the others follow from the middle of a block.
  ASSERT_TRUE(trial.Compute(ids[0], prompts[0], prompts[0].size()));
  for (std::size_t i = 1; i < ids.size(); ++i) {
    EXPECT_EQ(trial.Serve(ids[i], prompts[i]).tokens, 8 * kB);
  }
  const KvBalance balance = trial.cache().Balance();
  EXPECT_EQ(trial.cache().prefix_counters().published_blocks, 8U + 8U);
  EXPECT_EQ(balance.live_private_bytes / 8, (2 * 9216U));  // each its last two blocks
  for (std::size_t i = 0; i < ids.size(); ++i) trial.Check(ids[i], prompts[i]);
}

TEST(PrefixSharingTest, GeneratedTokensAreFoundByTheNextTurn) {
  PrefixTrial trial(OneSmallHead());
  for (std::size_t generated = 1; generated <= 33; ++generated) {
    const Tokens prompt = Prompt(static_cast<std::uint32_t>(generated), 30);
    const SequenceId id = trial.Create();
    Tokens all = prompt;
    trial.Serve(id, prompt);
    for (std::size_t i = 0; i + 1 < generated; ++i) {  // the last sampled token is never computed
      all.push_back(static_cast<std::int32_t>(i + 7));
      ASSERT_TRUE(trial.Compute(id, all, all.size()));
    }
    trial.cache().Release(id);
    all.push_back(3);
    const PrefixHit hit = trial.ServeOnce(Join(all, {11, 12, 13}));
    EXPECT_EQ(hit.tokens, static_cast<std::int64_t>(all.size() - 1) / kB * kB) << generated;
  }
}

TEST(PrefixSharingTest, ALookUpCountsOnceSomethingIsComputedOverIt) {
  PrefixTrial trial(OneSmallHead());
  const Tokens prompt = Prompt(1, 64);
  trial.ServeOnce(prompt);
  EXPECT_EQ(trial.cache().prefix_counters().queried_tokens, 64U);
  const SequenceId withdrawn = trial.Create();
  EXPECT_EQ(trial.cache().AdoptPrefix(withdrawn, prompt)->tokens, 63);
  trial.cache().Release(withdrawn);
  EXPECT_EQ(trial.cache().prefix_counters().queried_tokens, 64U);
  EXPECT_EQ(trial.cache().prefix_counters().hit_tokens, 0U);
  PrefixScope again;
  again.counts = false;
  EXPECT_EQ(trial.ServeOnce(prompt, again).tokens, 63);
  EXPECT_EQ(trial.cache().prefix_counters().queried_tokens, 64U);
  trial.ServeOnce(prompt);
  EXPECT_EQ(trial.cache().prefix_counters().queried_tokens, 128U);
  EXPECT_EQ(trial.cache().prefix_counters().hit_tokens, 63U);
}

TEST(PrefixSharingTest, SequencesThatDoNotShareNeitherFindNorAreFound) {
  PrefixTrial trial(OneSmallHead());
  const Tokens prompt = Prompt(1, 64);
  PrefixScope alone;
  alone.share = false;
  EXPECT_EQ(trial.ServeOnce(prompt, alone).end, PrefixEnd::kNotShared);
  EXPECT_EQ(trial.Find(prompt).tokens, 0);
  EXPECT_EQ(trial.cache().Balance().cached_bytes, 0U);
  trial.ServeOnce(prompt);
  EXPECT_EQ(trial.ServeOnce(prompt, alone).tokens, 0);
  EXPECT_EQ(trial.Find(prompt, alone).end, PrefixEnd::kNotShared);
}

TEST(PrefixSharingTest, TruncatingGivesUpReferencesAndCopiesBeforeItWrites) {
  PrefixTrial trial(OneSmallHead());
  const Tokens prompt = Prompt(1, 64);
  const SequenceId id = trial.Create();
  trial.Serve(id, prompt);
  ASSERT_TRUE(trial.cache().Truncate(id, 39).ok());
  EXPECT_EQ(trial.Find(Join(prompt, {1})).tokens, 64);
  const Tokens other = Join(Tokens(prompt.begin(), prompt.begin() + 39), Prompt(2, 25));
  ASSERT_TRUE(trial.Compute(id, other, 64));
  trial.Check(id, other);
  trial.ServeOnce(Join(prompt, {1}));
  EXPECT_EQ(trial.Find(Join(other, {1})).tokens, 64);
}

}  // namespace
}  // namespace swiftkv
