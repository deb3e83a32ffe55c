// SPDX-License-Identifier: Apache-2.0
// Tests prefixes of sequences that end early, churn or are re-encoded.
#include <gtest/gtest.h>

#include "cache/format_plan.h"
#include "cache/prefix_trial.h"

namespace swiftkv {
namespace {

constexpr std::size_t kB = kPageTokens;
constexpr std::int64_t kBlock = kPageTokens;

TEST(PrefixLifecycleTest, PrefillsAbortedHalfwayPoisonNoLaterHit) {
  PrefixTrial trial(ShortWindow(), 700 << 10);
  const Tokens prompt = Prompt(1, 16 * kB);
  for (std::uint32_t round = 0; round < 20; ++round) {
    const SequenceId aborted = trial.Create();
    ASSERT_TRUE(trial.cache().AdoptPrefix(aborted, prompt).ok());
    const auto known = static_cast<std::size_t>(trial.cache().Length(aborted));
    const std::size_t half = std::max<std::size_t>(known, 100 + round);
    ASSERT_TRUE(trial.Compute(aborted, prompt, half));
    // Reserved and in part stored, never committed.
    ASSERT_TRUE(trial.cache().Reserve(aborted, 40).ok());
    trial.Store(aborted, prompt, half, std::min(half + 40, prompt.size()));
    trial.cache().Release(aborted);
    EXPECT_LE(trial.Find(prompt).tokens, static_cast<std::int64_t>(half));
    for (std::uint32_t other = 0; other < 4; ++other) {
      trial.ServeOnce(Prompt(100 + round * 4 + other, 6 * kB));
    }
  }
  trial.ServeOnce(prompt);
  trial.ServeOnce(Join(prompt, Prompt(2, 30)));
  const KvBalance balance = trial.cache().Balance();
  EXPECT_EQ(balance.live_private_bytes + balance.live_shared_bytes, 0U);
}

TEST(PrefixLifecycleTest, ManyPromptsReleasedTogetherShareTheirHeaderFromTheFirstRoundOn) {
  PrefixTrial trial(EqualFrames(), 4 << 20);
  for (std::uint32_t round = 0; round < 30; ++round) {
    const Tokens header = Prompt(1000 + round, 8 * kB);
    std::vector<SequenceId> ids;
    std::vector<Tokens> prompts;
    for (std::uint32_t i = 0; i < 32; ++i) {
      ids.push_back(trial.Create());
      prompts.push_back(Join(header, Prompt(round * 100 + i, 1 + i)));
    }
    // Chunks of one step after the other, each asking first what others have done.
    for (std::size_t end = 50; end < 250; end += 50) {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        ASSERT_TRUE(trial.cache().AdoptPrefix(ids[i], prompts[i]).ok());
        const std::size_t until = std::min(end, prompts[i].size());
        if (static_cast<std::size_t>(trial.cache().Length(ids[i])) < until) {
          ASSERT_TRUE(trial.Compute(ids[i], prompts[i], until));
        }
      }
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(trial.cache().Length(ids[i]), static_cast<std::int64_t>(prompts[i].size()));
      trial.CheckRows(ids[i], prompts[i], 0, 0);
      trial.cache().Release(ids[i]);
    }
    ASSERT_FALSE(HasFailure()) << round;
  }
  trial.cache().CheckInvariants();
}

TEST(PrefixLifecycleTest, BlocksOfFewBitsAreFoundOnceTheyAreSealed) {
  PrefixTrial trial(SixLayers(), 16 << 20, {"int4", "int4"});
  PrefixScope any;
  any.allowed = Quality::kAny;
  const Tokens prompt = Prompt(1, 20 * kB);
  const SequenceId id = trial.Create(any);
  for (std::size_t end = kB; end <= prompt.size(); end += kB) {
    ASSERT_TRUE(trial.Compute(id, prompt, end));
    // Block 0 is never sealed; the others once their tokens are older than the newest 128.
    const std::size_t sealed = end < 160 ? 1 : (end - 128) / kB;
    EXPECT_EQ(trial.Find(prompt, any).tokens, static_cast<std::int64_t>(sealed * kB)) << end;
  }
  EXPECT_EQ(trial.Find(prompt).end, PrefixEnd::kQuality) << "not for an exact reader";
  const SequenceId reader = trial.Create(any);
  EXPECT_EQ(trial.Serve(reader, prompt, 1000, 0, 0.3).tokens, 12 * kBlock);
  std::vector<PageRun> theirs;
  std::vector<PageRun> ours;
  trial.cache().AppendRuns(id, 2, 0, &theirs);
  trial.cache().AppendRuns(reader, 2, 0, &ours);
  ASSERT_EQ(ours.size(), 3U);
  EXPECT_EQ(ours[0].Page(0, 0), theirs[0].Page(0, 0));
  for (int page = 0; page < 11; ++page) EXPECT_EQ(ours[1].Page(page, 0), theirs[1].Page(page, 0));
  trial.cache().CheckInvariants();
}

TEST(PrefixLifecycleTest, APrefillInProgressChangesOverToSealedBlocksOfAnother) {
  PrefixTrial trial(SixLayers(), 16 << 20, {"f16", "int4"});
  PrefixScope any;
  any.allowed = Quality::kAny;
  const Tokens prompt = Prompt(1, 30 * kB);
  const SequenceId slow = trial.Create(any);
  ASSERT_TRUE(trial.Compute(slow, prompt, 5 * kB + 3));  // none of its own is sealed
  const SequenceId fast = trial.Create(any);
  trial.Serve(fast, prompt, 1000, 0, 0.3);
  EXPECT_EQ(trial.Serve(slow, prompt, 1000, 0, 0.3).tokens, 22 * kBlock);
  std::vector<PageRun> runs;
  trial.cache().AppendRuns(slow, 2, 0, &runs);
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[1].num_pages, 21);
  trial.Check(fast, prompt, 0, 0.3);
}

TEST(PrefixLifecycleTest, LayersThatSeeOnlyTheNewestTokensAreNotSealed) {
  std::vector<LayerShape> layers = Interleave(8, 4, {1, 32, 100});
  const FormatPlan plan = FormatPlan::For(layers, "int4", "int4").value();
  for (int layer = 2; layer < 6; ++layer) {
    EXPECT_EQ(PageFormatName(plan.sealed.layer(layer)), layer == 3 ? "int4" : "int8") << layer;
  }
  layers = Interleave(8, 4, {1, 32, 130});
  EXPECT_EQ(PageFormatName(FormatPlan::For(layers, "int4", "int4")->sealed.layer(2)), "int4");
}

}  // namespace
}  // namespace swiftkv
