// SPDX-License-Identifier: Apache-2.0
// Tests what keeps prefixes apart: tokens, their order, salts, grades and formats; and that the
// reason why a look-up ended is the right one.
#include <gtest/gtest.h>

#include "cache/prefix_trial.h"

namespace swiftkv {
namespace {

constexpr std::size_t kB = kPageTokens;

Tokens Repeat(std::int32_t token, std::size_t count = kB) { return Tokens(count, token); }

// Tokens that a prompt and a known one have in common, all but the prompt's last at most.
std::int64_t Common(const Tokens& known, const Tokens& prompt) {
  const auto same = std::mismatch(known.begin(), known.end(), prompt.begin(), prompt.end());
  return std::min<std::int64_t>(same.first - known.begin(),
                                static_cast<std::int64_t>(prompt.size()) - 1);
}

TEST(PrefixScopeTest, PromptsThatAreAlmostEqualShareNoMoreThanTheirCommonPrefix) {
  const Tokens x = Prompt(1, kB);
  const Tokens y = Prompt(2, kB);
  Tokens swapped = x;  // equal as a set, and so in sum and xor
  std::swap(swapped[3], swapped[9]);
  Tokens same_sum = x;
  same_sum[2] += 5;
  same_sum[7] -= 5;
  Tokens same_xor = x;
  same_xor[1] ^= 64;
  same_xor[15] ^= 64;
  const std::vector<std::pair<Tokens, Tokens>> pairs = {
      {Join(x, y), Join(y, x)},
      {Join(x, x), x},
      {Join(x, y), Join(swapped, y)},
      {Join(x, y), Join(same_sum, y)},
      {Join(x, y), Join(same_xor, y)},
      {Join(Join(x, y), y), Join(Join(y, y), y)},
      {Join(x, Repeat(0)), Repeat(0)},
      {Repeat(0, 3 * kB), Repeat(0, 2 * kB + 3)},
      {Repeat(1, 2 * kB), Join(Repeat(1, kB - 1), Join({0}, Repeat(1)))},
  };
  for (const auto& [known, asked] : pairs) {
    PrefixTrial trial(ShortWindow());
    trial.ServeOnce(known);
    const std::int64_t common = Common(known, asked);
    EXPECT_EQ(trial.Find(asked).tokens, common);
    EXPECT_EQ(trial.ServeOnce(asked).tokens, common);
    EXPECT_EQ(trial.ServeOnce(known).tokens, Common(known, known));
  }
}

TEST(PrefixScopeTest, ManyBlocksOverTwoTokensNeverHitBeyondTheirPrefix) {
  PrefixTrial trial(OneSmallHead());
  std::vector<Tokens> known;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    const Tokens prompt = Prompt(seed, 1 + seed % 90, 2);
    std::int64_t most = 0;
    for (const Tokens& other : known) {
      const Tokens blocks(other.begin(),
                          other.begin() + static_cast<std::ptrdiff_t>(other.size() / kB * kB));
      most = std::max(most, Common(blocks, prompt));
    }
    EXPECT_LE(trial.ServeOnce(prompt).tokens, most);
    known.push_back(prompt);
  }
}

TEST(PrefixScopeTest, ScopesThatDifferInAnyTextShareNothing) {
  std::vector<PrefixScope> scopes(9);
  scopes[1].tenant_salt = "ab";
  scopes[2].tenant_salt = "a";
  scopes[2].request_salt = "b";
  scopes[3].tenant_salt = "b";
  scopes[3].request_salt = "a";
  scopes[4].request_salt = "ab";
  scopes[5].adapter = "ab";
  scopes[6].adapter = "a";
  scopes[6].tenant_salt = "b";
  scopes[7].tenant_salt = std::string("a\0b", 3);
  scopes[8].tenant_salt = "a";
  PrefixTrial trial(OneSmallHead());
  const Tokens prompt = Prompt(1, 50);
  for (std::uint32_t i = 0; i < scopes.size(); ++i) {
    const PrefixHit hit = trial.ServeOnce(prompt, scopes[i], i);
    EXPECT_EQ(hit.tokens, 0) << i;
    EXPECT_EQ(hit.end, i == 0 ? PrefixEnd::kNeverSeen : PrefixEnd::kSalt) << i;
  }
  for (std::uint32_t i = 0; i < scopes.size(); ++i) {
    EXPECT_EQ(trial.ServeOnce(prompt, scopes[i], i).tokens, 48) << i;
  }
}

TEST(PrefixScopeTest, AnotherFormatSharesNothingAndIsToldApartFromNeverSeen) {
  PrefixTrial trial(OneSmallHead());
  const Tokens prompt = Prompt(1, 50);
  trial.ServeOnce(prompt);
  PrefixScope near;
  near.allowed = Quality::kNear;
  EXPECT_EQ(trial.cache().FindPrefix({"int8", "int8"}, near, prompt).end, PrefixEnd::kQuality);
  const SequenceId id = *trial.cache().CreateSequence({"int8", "int8"}, near);
  EXPECT_EQ(trial.cache().AdoptPrefix(id, prompt)->tokens, 0);
  ASSERT_TRUE(trial.Compute(id, prompt, prompt.size()));
  trial.Check(id, prompt, 0, 0.02);
  EXPECT_EQ(trial.cache().FindPrefix({"int8", "int8"}, near, prompt).tokens, 48);
  EXPECT_EQ(trial.cache().FindPrefix({"int8", "int8"}, near, prompt).grade, Quality::kNear);
  const PrefixHit refused = trial.cache().FindPrefix({"int8", "int8"}, {}, prompt);
  EXPECT_EQ(refused.tokens, 0) << "an exact reader takes no 8-bit block";
  EXPECT_EQ(refused.end, PrefixEnd::kQuality);
}

TEST(PrefixScopeTest, WhatIsComputedOverApproximateBlocksIsApproximate) {
  PrefixTrial trial(OneSmallHead());
  const Tokens prompt = Prompt(1, 10 * kB);
  const SequenceId compressed = trial.Create();
  ASSERT_TRUE(trial.Compute(compressed, prompt, 3 * kB));
  trial.cache().WorsenGrade(compressed, Quality::kAny);
  ASSERT_TRUE(trial.Compute(compressed, prompt, prompt.size()));
  EXPECT_EQ(trial.Find(prompt).tokens, 3 * static_cast<std::int64_t>(kB));
  EXPECT_EQ(trial.Find(prompt).end, PrefixEnd::kQuality);
  EXPECT_EQ(trial.Find(prompt).grade, Quality::kExact);
  PrefixScope any;
  any.allowed = Quality::kAny;
  EXPECT_EQ(trial.Find(prompt, any).tokens, 10 * static_cast<std::int64_t>(kB) - 1);
  EXPECT_EQ(trial.Find(prompt, any).grade, Quality::kAny);
  // Who adopts them passes the grade on.
  const SequenceId reader = trial.Create(any);
  trial.Serve(reader, Join(prompt, Prompt(9, 2 * kB)));
  EXPECT_EQ(trial.Find(Join(prompt, Prompt(9, 3 * kB))).tokens, 3 * static_cast<std::int64_t>(kB));
  // A dense run makes exact ones beside them, of which later readers of all levels take what is
  // better.
  const SequenceId dense = trial.Create();
  trial.Serve(dense, prompt);
  EXPECT_EQ(trial.Find(prompt).tokens, 10 * static_cast<std::int64_t>(kB) - 1);
  EXPECT_EQ(trial.Find(prompt, any).grade, Quality::kExact);
  for (const SequenceId id : {compressed, reader, dense}) trial.cache().Release(id);
  trial.cache().CheckInvariants();
}

TEST(PrefixScopeTest, WhetherOtherSaltsKnowABeginningIsForgottenWithIt) {
  PrefixTrial trial(OneSmallHead());
  PrefixScope other;
  other.tenant_salt = "other";
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const Tokens prompt = Prompt(seed, 40);
    EXPECT_EQ(trial.Find(prompt, other).end, PrefixEnd::kNeverSeen);
    trial.ServeOnce(prompt);
    EXPECT_EQ(trial.Find(prompt, other).end, PrefixEnd::kSalt);
  }
  trial.cache().DropPrefixes();
  EXPECT_EQ(trial.Find(Prompt(7, 40), other).end, PrefixEnd::kNeverSeen);
}

TEST(PrefixScopeTest, TheReasonOfEveryEndIsGiven) {
  PrefixTrial trial(OneSmallHead());
  const Tokens prompt = Prompt(1, 4 * kB);
  EXPECT_EQ(trial.Find(prompt).end, PrefixEnd::kNeverSeen);
  trial.ServeOnce(prompt);
  EXPECT_EQ(trial.Find(prompt).end, PrefixEnd::kWholePrompt);
  EXPECT_EQ(trial.Find(Join(prompt, {1, 2})).end, PrefixEnd::kNeverSeen);
  EXPECT_EQ(trial.Find({}).end, PrefixEnd::kWholePrompt);
  EXPECT_EQ(trial.Find({7}).end, PrefixEnd::kWholePrompt);
  for (const std::size_t at : {0U, 1U, 20U, 31U, 32U, 62U}) {
    Tokens other = prompt;
    other[at] += 1;
    const PrefixHit hit = trial.Find(other);
    EXPECT_EQ(hit.tokens, static_cast<std::int64_t>(at));
    EXPECT_EQ(hit.end, PrefixEnd::kTokenDiffers) << at;
    EXPECT_EQ(hit.differs_at, static_cast<std::int64_t>(at));
  }
  EXPECT_STREQ(PrefixEndName(PrefixEnd::kTokenDiffers), "token_differs");
}

TEST(PrefixScopeTest, TokensCommittedWithoutNamesEndWhatIsFindableUntilTheyAreCut) {
  PrefixTrial trial(OneSmallHead());
  const Tokens prompt = Prompt(1, 6 * kB);
  const SequenceId id = trial.Create();
  ASSERT_TRUE(trial.Compute(id, prompt, 40));
  ASSERT_TRUE(trial.cache().Reserve(id, 8).ok());
  trial.Store(id, prompt, 40, 48);
  trial.cache().Commit(id, 8);
  ASSERT_TRUE(trial.Compute(id, prompt, prompt.size()));
  EXPECT_EQ(trial.Find(prompt).tokens, 32);
  EXPECT_EQ(trial.cache().AdoptPrefix(id, Join(prompt, {1}))->end, PrefixEnd::kNotShared);
  ASSERT_TRUE(trial.cache().Truncate(id, 40).ok());
  ASSERT_TRUE(trial.Compute(id, prompt, prompt.size()));
  EXPECT_EQ(trial.Find(prompt).tokens, 95);
  trial.Check(id, prompt);
}

}  // namespace
}  // namespace swiftkv
