// SPDX-License-Identifier: Apache-2.0
// Tests that tokens are drawn from the right distribution, reproducibly, and the same with and
// without shortcuts.
#include "model/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "model/test_vocabularies.h"
#include "model/token_text.h"

namespace swiftkv {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

const Vocabulary& Tiny() {
  static const std::unique_ptr<Vocabulary> vocabulary =
      TinyVocabularyWith(TinyChatTokenizer(TinyVocabularyKind::kBpe));
  return *vocabulary;
}

std::vector<float> RandomLogits(std::mt19937* random, float deviation = 3.0F) {
  std::normal_distribution<float> normal(0.0F, deviation);
  std::vector<float> logits(static_cast<std::size_t>(Tiny().size()));
  for (float& logit : logits) logit = normal(*random);
  return logits;
}

SamplerOptions Greedy() {
  SamplerOptions options;
  options.temperature = 0.0F;
  return options;
}

std::unique_ptr<Sampler> Make(const SamplerOptions& options) {
  auto sampler = Sampler::Create(Tiny(), options);
  EXPECT_TRUE(sampler.ok()) << sampler.status().message();
  return sampler.ok() ? std::move(sampler).value() : nullptr;
}

TokenId SampleOrFail(Sampler* sampler, std::span<const float> logits) {
  const auto token = sampler->Sample(logits);
  EXPECT_TRUE(token.ok()) << token.status().message();
  return token.ok() ? *token : kNoToken;
}

// Draws any combination of options, each on about half of the time.
SamplerOptions RandomOptions(std::mt19937* random) {
  const auto flip = [&] { return (*random)() % 2 == 0; };
  const auto pick = [&](auto... values) {
    const std::array all{values...};
    return all[(*random)() % all.size()];
  };
  SamplerOptions options;
  options.seed = (*random)();
  options.temperature = flip() ? pick(0.3F, 0.8F, 1.7F) : pick(0.0F, 1.0F);
  options.top_k = pick(0, 1, 5, 40, 100, 100000);
  if (flip()) options.top_p = pick(0.5F, 0.9F, 1.0F);
  if (flip()) options.min_p = pick(0.0F, 0.1F);
  if (flip()) options.typical_p = pick(0.3F, 0.9F);
  if (flip()) options.repeat_penalty = pick(0.7F, 1.3F);
  if (flip()) options.frequency_penalty = pick(-0.5F, 0.8F);
  if (flip()) options.presence_penalty = pick(-0.5F, 1.0F);
  options.penalty_last_n = pick(0, 3, 64);
  if (flip()) options.dry_multiplier = pick(0.8F, 5.0F);
  options.dry_last_n = pick(0, 16, 4096);
  if (flip()) options.xtc_probability = 0.5F;
  if (flip()) options.dynatemp_range = 0.5F;
  if (flip()) options.ignore_eos = true;
  if ((*random)() % 4 == 0) options.mirostat = pick(1, 2);
  if ((*random)() % 4 == 0) options.top_n_sigma = 1.0F;
  if (flip()) {
    for (int i = 0; i < 5; ++i) {
      const auto token = static_cast<TokenId>((*random)() % static_cast<unsigned>(Tiny().size()));
      options.logit_bias.push_back({token, pick(-kInfinity, -5.0F, 4.0F)});
    }
  }
  return options;
}

TEST(SamplerTest, PreselectionNeverChangesAToken) {
  std::mt19937 random(11);
  for (int round = 0; round < 400; ++round) {
    SamplerOptions options = RandomOptions(&random);
    // A grammar that allows much, in some rounds, so that draws are refused and repeated.
    if (round % 3 == 0) options.grammar = "root ::= [a-m ]*";
    const auto quick = Make(options);
    const auto full = Make(options);
    full->DisablePreselection();
    const std::vector<TokenId> prompt = {5, 6, 7, 5, 6, 7, 5, 6};
    quick->AcceptPrompt(prompt);
    full->AcceptPrompt(prompt);
    for (int step = 0; step < 30; ++step) {
      const std::vector<float> logits = RandomLogits(&random);
      const auto token = quick->Sample(logits);
      const auto expected = full->Sample(logits);
      ASSERT_EQ(token.ok(), expected.ok()) << round << " " << step;
      if (!token.ok()) break;
      ASSERT_EQ(*token, *expected) << "round " << round << ", step " << step;
      ASSERT_EQ(quick->Accept(*token).ok(), full->Accept(*token).ok());
      if (Tiny().IsEndOfGeneration(*token)) break;
    }
  }
}

TEST(SamplerTest, GreedyIsTheHighestLogitAndTheLowestIdAmongEquals) {
  std::mt19937 random(1);
  const auto sampler = Make(Greedy());
  for (int round = 0; round < 100; ++round) {
    std::vector<float> logits = RandomLogits(&random);
    const auto best = std::max_element(logits.begin(), logits.end());
    EXPECT_EQ(SampleOrFail(sampler.get(), logits), best - logits.begin());
    logits.back() = *best;
    EXPECT_EQ(SampleOrFail(sampler.get(), logits), best - logits.begin());
  }
}

TEST(SamplerTest, GreedyIgnoresWhatTruncates) {
  SamplerOptions options = Greedy();
  options.typical_p = 0.2F;
  options.xtc_probability = 1.0F;
  const auto sampler = Make(options);
  std::vector<float> logits(static_cast<std::size_t>(Tiny().size()), 0.0F);
  logits[9] = 5.0F;
  logits[10] = 4.9F;
  EXPECT_EQ(SampleOrFail(sampler.get(), logits), 9);
}

TEST(SamplerTest, DrawsFollowTheProbabilitiesOfTopKAndTemperature) {
  SamplerOptions options;
  options.seed = 3;
  options.top_k = 3;
  options.top_p = 1.0F;
  options.min_p = 0.0F;
  options.temperature = 0.5F;
  const auto sampler = Make(options);
  std::vector<float> logits(static_cast<std::size_t>(Tiny().size()), -1.0F);
  logits[20] = 2.0F;
  logits[30] = 1.5F;
  logits[40] = 1.0F;
  logits[50] = 0.9F;  // the fourth
  std::map<TokenId, int> counts;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++counts[SampleOrFail(sampler.get(), logits)];
  const double sum = std::exp(4.0) + std::exp(3.0) + std::exp(2.0);
  EXPECT_EQ(counts.size(), 3U);
  // Four standard deviations of a binomial are below 0.015.
  EXPECT_NEAR(counts[20] / double{kDraws}, std::exp(4.0) / sum, 0.015);
  EXPECT_NEAR(counts[30] / double{kDraws}, std::exp(3.0) / sum, 0.015);
  EXPECT_NEAR(counts[40] / double{kDraws}, std::exp(2.0) / sum, 0.015);
}

TEST(SamplerTest, TopPAndMinPKeepWhatTheyPromise) {
  std::vector<float> logits(static_cast<std::size_t>(Tiny().size()), -50.0F);
  logits[1] = std::log(0.5F);
  logits[2] = std::log(0.3F);
  logits[3] = std::log(0.2F);
  const auto drawn = [&](float top_p, float min_p) {
    SamplerOptions options;
    options.seed = 1;
    options.top_p = top_p;
    options.min_p = min_p;
    options.temperature = 1.0F;
    const auto sampler = Make(options);
    std::map<TokenId, int> counts;
    for (int i = 0; i < 500; ++i) ++counts[SampleOrFail(sampler.get(), logits)];
    return counts.size();
  };
  EXPECT_EQ(drawn(1.0F, 0.0F), 3U);
  EXPECT_EQ(drawn(0.7F, 0.0F), 2U);
  EXPECT_EQ(drawn(0.0F, 0.0F), 1U);
  EXPECT_EQ(drawn(1.0F, 0.5F), 2U);
  EXPECT_EQ(drawn(1.0F, 1.0F), 1U);
}

TEST(SamplerTest, OneSeedGivesOneSequenceAndAnotherSeedAnother) {
  const auto tokens = [](std::optional<std::uint64_t> seed, std::uint64_t* used) {
    SamplerOptions options;
    options.seed = seed;
    options.temperature = 2.0F;
    options.top_k = 0;
    options.xtc_probability = 0.3F;
    const auto sampler = Make(options);
    *used = sampler->seed();
    std::mt19937 random(5);
    std::vector<TokenId> drawn;
    for (int i = 0; i < 50; ++i) {
      drawn.push_back(SampleOrFail(sampler.get(), RandomLogits(&random, 1.0F)));
    }
    return drawn;
  };
  std::uint64_t used = 0;
  std::uint64_t unused = 0;
  EXPECT_EQ(tokens(7, &used), tokens(7, &unused));
  EXPECT_EQ(used, 7U);
  EXPECT_NE(tokens(7, &used), tokens(8, &unused));
  // The value that the library keeps for "draw one" is a seed like any other, and so are 64 bits.
  EXPECT_EQ(tokens(0xFFFFFFFF, &used), tokens(0xFFFFFFFF, &unused));
  EXPECT_NE(tokens(std::uint64_t{1} << 40, &used), tokens(0, &unused));
  // A seed that was drawn can be given back.
  const auto drawn = tokens(std::nullopt, &used);
  EXPECT_EQ(drawn, tokens(used, &unused));
}

TEST(SamplerTest, PenaltiesSeePromptAndReplyInWhateverPiecesTheyCome) {
  SamplerOptions options = Greedy();
  options.repeat_penalty = 1.3F;
  options.frequency_penalty = 1.0F;
  options.presence_penalty = 1.0F;
  std::mt19937 random(2);
  const std::vector<TokenId> prompt = {10, 11, 12, 10, 11, 12, 10, 200, 201};
  const auto whole = Make(options);
  const auto pieces = Make(options);
  whole->AcceptPrompt(prompt);
  pieces->AcceptPrompt(std::span(prompt).first(4));
  pieces->AcceptPrompt(std::span(prompt).subspan(4));
  std::map<TokenId, int> counts;
  for (const TokenId token : prompt) ++counts[token];
  for (int step = 0; step < 40; ++step) {
    const std::vector<float> logits = RandomLogits(&random, 0.5F);
    // The obvious way: 64 tokens of window hold everything here.
    TokenId expected = 0;
    float best = -kInfinity;
    for (TokenId token = 0; token < Tiny().size(); ++token) {
      float logit = logits[static_cast<std::size_t>(token)];
      if (const auto seen = counts.find(token); seen != counts.end()) {
        logit = logit <= 0 ? logit * 1.3F : logit / 1.3F;
        logit -= static_cast<float>(seen->second) * 1.0F + 1.0F;
      }
      if (logit > best) {
        best = logit;
        expected = token;
      }
    }
    ASSERT_EQ(SampleOrFail(whole.get(), logits), expected);
    ASSERT_EQ(SampleOrFail(pieces.get(), logits), expected);
    ASSERT_TRUE(whole->Accept(expected).ok());
    ASSERT_TRUE(pieces->Accept(expected).ok());
    ++counts[expected];
  }
}

TEST(SamplerTest, DryEndsARepeatedSequence) {
  SamplerOptions options = Greedy();
  options.dry_multiplier = 2.0F;
  const auto sampler = Make(options);
  sampler->AcceptPrompt(std::vector<TokenId>{70, 71, 72, 73, 74, 70, 71, 72, 73});
  std::vector<float> logits(static_cast<std::size_t>(Tiny().size()), 0.0F);
  logits[74] = 3.0F;  // would prolong the repetition
  logits[80] = 2.0F;
  EXPECT_EQ(SampleOrFail(sampler.get(), logits), 80);
  EXPECT_EQ(SampleOrFail(Make(Greedy()).get(), logits), 74);
}

TEST(SamplerTest, BiasForcesForbidsAndAddsUp) {
  std::vector<float> logits(static_cast<std::size_t>(Tiny().size()), 0.0F);
  logits[4] = 10.0F;
  SamplerOptions options = Greedy();
  options.logit_bias = {{9, 100.0F}};
  EXPECT_EQ(SampleOrFail(Make(options).get(), logits), 9);
  options.logit_bias = {{4, -kInfinity}};
  EXPECT_EQ(SampleOrFail(Make(options).get(), logits), 0);
  options.logit_bias = {{9, 6.0F}, {9, 6.0F}};
  EXPECT_EQ(SampleOrFail(Make(options).get(), logits), 9);
}

TEST(SamplerTest, EveryEndOfReplyCanBeForcedAndIgnoreEosForbidsThemAll) {
  ASSERT_GE(Tiny().end_of_generation_tokens().size(), 2U);
  const std::vector<float> flat(static_cast<std::size_t>(Tiny().size()), 0.0F);
  for (const TokenId end : Tiny().end_of_generation_tokens()) {
    SamplerOptions options;
    options.seed = 1;
    options.logit_bias = {{end, 100.0F}};
    const TokenId token = SampleOrFail(Make(options).get(), flat);
    EXPECT_EQ(token, end);
    EXPECT_TRUE(Tiny().IsEndOfGeneration(token));
    options.ignore_eos = true;
    const auto sampler = Make(options);
    for (int i = 0; i < 200; ++i) {
      EXPECT_FALSE(Tiny().IsEndOfGeneration(SampleOrFail(sampler.get(), flat)));
    }
  }
}

// Returns the mean surprise of drawn tokens, in bits.
double MeanSurprise(int version, float tau) {
  SamplerOptions options;
  options.seed = 1;
  options.mirostat = version;
  options.mirostat_tau = tau;
  options.temperature = 1.0F;
  const auto sampler = Make(options);
  std::mt19937 random(9);
  double bits = 0.0;
  constexpr int kSteps = 600;
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<float> logits = RandomLogits(&random, 2.0F);
    const TokenId token = SampleOrFail(sampler.get(), logits);
    bits -= LogprobOf(logits, token).logprob / std::log(2.0);
    EXPECT_TRUE(sampler->Accept(token).ok());
  }
  return bits / kSteps;
}

TEST(SamplerTest, MirostatFollowsItsTargetOfSurprise) {
  for (const int version : {1, 2}) {
    // Measured against the raw distribution; the algorithm draws from a renormalised head of it.
    const double low = MeanSurprise(version, 1.0F);
    const double middle = MeanSurprise(version, 2.5F);
    const double high = MeanSurprise(version, 4.0F);
    EXPECT_LT(low + 0.5, middle) << version;
    EXPECT_LT(middle + 0.5, high) << version;
  }
}

TEST(SamplerTest, LogitsThatAreNoNumbersAreAnError) {
  std::vector<float> logits(static_cast<std::size_t>(Tiny().size()), 0.0F);
  const auto sampler = Make({});
  for (const float bad : {std::nanf(""), kInfinity}) {
    logits[17] = bad;
    const auto token = sampler->Sample(logits);
    ASSERT_FALSE(token.ok());
    EXPECT_EQ(token.status().code(), StatusCode::kInternal);
  }
  std::fill(logits.begin(), logits.end(), -kInfinity);
  EXPECT_FALSE(sampler->Sample(logits).ok());
  logits[3] = -1.0F;
  EXPECT_EQ(SampleOrFail(sampler.get(), logits), 3);
}

TEST(SamplerTest, TokensOutsideTheVocabularyAreRefused) {
  const auto sampler = Make({});
  EXPECT_EQ(sampler->Accept(-1).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(sampler->Accept(Tiny().size()).message(),
              HasSubstr("not " + std::to_string(Tiny().size())));
}

}  // namespace
}  // namespace swiftkv
