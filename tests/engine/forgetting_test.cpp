// SPDX-License-Identifier: Apache-2.0
// Tests that requests forget what they were asked to, and that nobody else notices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/tiny_engine.h"
#include "policy/eviction_policy.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr TinySessionOptions kOptions = {.context = 1024, .chunk = 64};
constexpr EngineLimits kLimits = {.ceiling = Quality::kAny};
// Small enough for prompts of a test.
constexpr const char* kSettings = ":recent=16,min_tokens=64";

EngineRequest ForgettingRequest(std::vector<TokenId> prompt, int max_tokens,
                                const std::string& policy = "keydiff", double ratio = 0.5) {
  EngineRequest request = GreedyRequest(std::move(prompt), max_tokens);
  request.forgetting = Forgetting{.policy = policy + kSettings, .ratio = ratio};
  return request;
}

// In an engine that has seen nothing.
TinyReply RunCold(const EngineRequest& request) {
  TinyEngine tiny = MakeTinyEngine(kOptions, kLimits);
  return tiny.Run(request).front();
}

// Compares with a run of the same request that rounding may part from it after a near tie.
void ExpectAlike(const TinyReply& reply, const TinyReply& cold) {
  ASSERT_EQ(reply.tokens.size(), cold.tokens.size());
  for (std::size_t i = 0; i < cold.tokens.size(); ++i) {
    ASSERT_NEAR(reply.logprobs[i], cold.logprobs[i], kLogprobBound) << "token " << i;
    if (reply.tokens[i] != cold.tokens[i]) return;
  }
}

TEST(ForgettingTest, EveryPolicyKeepsAboutWhatIsAskedAndCountsOn) {
  for (const EvictionPolicy* policy : AllPolicies()) {
    TinyEngine tiny = MakeTinyEngine(kOptions, kLimits);
    TokenStream stream =
        tiny.Submit(ForgettingRequest(TinyPrompt(500), 20, policy->info().name, 0.5));
    EXPECT_THAT(ReadAll(&stream).front().tokens, SizeIs(20)) << policy->info().name;
    ASSERT_TRUE(stream.status().ok()) << stream.status().message();
    const KvUsage kv = stream.usage().kv;
    EXPECT_EQ(kv.compactions, 1) << policy->info().name;
    EXPECT_THAT(kv.policy, HasSubstr(policy->info().name));
    EXPECT_EQ(kv.logical_tokens, 519) << "the last token is never computed";
    EXPECT_GT(kv.kept_tokens, 200);
    EXPECT_LT(kv.kept_tokens, 320) << policy->info().name;
    EXPECT_GT(kv.bytes, 0U);
    EXPECT_GT(tiny.engine->Snapshot().forgotten_tokens, 0U);
    tiny.ExpectDrained();
  }
}

TEST(ForgettingTest, ShortPromptsKeepAll) {
  TinyEngine tiny = MakeTinyEngine(kOptions, kLimits);
  for (const int length : {1, 2, 5, 20, 63}) {
    for (const double ratio : {0.0, 0.5, 0.99}) {
      EngineRequest request = ForgettingRequest(TinyPrompt(length, length), 12, "keydiff", ratio);
      TokenStream stream = tiny.Submit(request);
      ExpectAsSolo(kOptions, TinyPrompt(length, length), ReadAll(&stream).front());
      EXPECT_EQ(stream.usage().kv.compactions, 0);
      EXPECT_EQ(stream.usage().kv.kept_tokens, length + 11);
    }
  }
  tiny.ExpectDrained();
}

TEST(ForgettingTest, AnExactRequestBehindACompressedOneIsServedAsCold) {
  for (const bool exact_first : {false, true}) {
    TinyEngine tiny = MakeTinyEngine(kOptions, kLimits);
    const std::vector<TokenId> prompt = TinyPrompt(400);
    EngineRequest exact = GreedyRequest(prompt, 16);
    exact.quality = Quality::kExact;
    if (exact_first) ExpectAsSolo(kOptions, prompt, tiny.Run(exact).front());
    const TinyReply compressed = tiny.Run(ForgettingRequest(prompt, 16)).front();
    ExpectAsSolo(kOptions, prompt, tiny.Run(exact).front());
    ExpectAlike(compressed, RunCold(ForgettingRequest(prompt, 16)));
    tiny.ExpectDrained();
  }
}

TEST(ForgettingTest, WhoComesLaterRepliesAsAloneWhateverWasKeptBefore) {
  TinyEngine tiny = MakeTinyEngine(kOptions, kLimits);
  const std::vector<TokenId> document = TinyPrompt(400);
  tiny.Run(ForgettingRequest(document, 4));
  for (int extra = 1; extra < 60; extra += 9) {
    for (const char* policy : {"keydiff", "sink_recent"}) {
      const EngineRequest request =
          ForgettingRequest(Join(document, TinyPrompt(extra, extra)), 6, policy);
      ExpectAlike(tiny.Run(request).front(), RunCold(request));
    }
  }
  tiny.ExpectDrained();
}

TEST(ForgettingTest, TheSamePromptTakesTheSegmentOfTheFirst) {
  TinyEngine tiny = MakeTinyEngine(kOptions, kLimits);
  const EngineRequest request = ForgettingRequest(TinyPrompt(400), 6);
  const TinyReply first = tiny.Run(request).front();
  TokenStream second = tiny.Submit(request);
  ExpectAlike(ReadAll(&second).front(), first);
  EXPECT_GT(second.usage().kv.compressed_tokens, 300);
  EXPECT_EQ(second.usage().kv.compactions, 0);
  EXPECT_GE(second.usage().cached_tokens, second.usage().kv.compressed_tokens);
  TokenStream other = tiny.Submit(ForgettingRequest(TinyPrompt(400), 6, "keydiff", 0.25));
  ReadAll(&other);
  EXPECT_EQ(other.usage().kv.compressed_tokens, 0) << "of another ratio";
  tiny.ExpectDrained();
}

TEST(ForgettingTest, ABudgetHoldsThroughPromptAndReply) {
  for (const int prompt : {200, 620}) {
    TinyEngine tiny = MakeTinyEngine(kOptions, kLimits);
    EngineRequest request = GreedyRequest(TinyPrompt(prompt), 400);
    request.forgetting = Forgetting{.policy = "keydiff", .budget = "256tokens"};
    TokenStream stream = tiny.Submit(request);
    EXPECT_THAT(ReadAll(&stream).front().tokens, SizeIs(400));
    const KvUsage kv = stream.usage().kv;
    EXPECT_EQ(kv.logical_tokens, prompt + 399);
    EXPECT_LE(kv.kept_tokens, 256);
    EXPECT_GT(kv.compactions, 5);
    tiny.ExpectDrained();
  }
}

TEST(ForgettingTest, APolicyThatLooksAtTheQuestionKeepsToABudgetAfterIt) {
  for (const int prompt : {100, 620}) {
    TinyEngine tiny = MakeTinyEngine(kOptions, kLimits);
    EngineRequest request = GreedyRequest(TinyPrompt(prompt), 300);
    request.forgetting = Forgetting{.policy = "snapkv:recent=32", .budget = "192tokens"};
    TokenStream stream = tiny.Submit(request);
    EXPECT_THAT(ReadAll(&stream).front().tokens, SizeIs(300));
    ASSERT_TRUE(stream.status().ok()) << stream.status().message();
    const KvUsage kv = stream.usage().kv;
    EXPECT_EQ(kv.logical_tokens, prompt + 299);
    EXPECT_LE(kv.kept_tokens, 192);
    EXPECT_GT(kv.compactions, 5);
    tiny.ExpectDrained();
  }
}

TEST(ForgettingTest, PartOfWhatIsKeptInASmallerFormatLeavesRoomForMore) {
  TinyEngine tiny = MakeTinyEngine(kOptions, kLimits);
  EngineRequest plain = ForgettingRequest(TinyPrompt(500), 8);
  TokenStream first = tiny.Submit(plain);
  ReadAll(&first);
  EngineRequest mixed = plain;
  mixed.forgetting->kept_as = "int8=0.5";
  TokenStream second = tiny.Submit(mixed);
  EXPECT_THAT(ReadAll(&second).front().tokens, SizeIs(8));
  ASSERT_TRUE(second.status().ok()) << second.status().message();
  EXPECT_EQ(first.usage().kv.kept_as, "same");
  EXPECT_EQ(second.usage().kv.kept_as, "int8=0.5");
  EXPECT_EQ(second.usage().kv.compressed_tokens, 0) << "of another recipe";
  EXPECT_EQ(second.usage().kv.compactions, 1);
  EXPECT_GT(second.usage().kv.kept_tokens, first.usage().kv.kept_tokens * 13 / 10);
  EXPECT_LE(second.usage().kv.bytes, first.usage().kv.bytes * 105 / 100);
  TokenStream again = tiny.Submit(mixed);
  ReadAll(&again);
  EXPECT_GT(again.usage().kv.compressed_tokens, 300);
  tiny.ExpectDrained();
}

TEST(ForgettingTest, TheEnginesSmallerFormatIsForRequestsInItsFormat) {
  EngineLimits limits = kLimits;
  limits.forgetting =
      Forgetting{.policy = std::string("keydiff") + kSettings, .ratio = 0.5, .kept_as = "int8=1"};
  TinyEngine tiny = MakeTinyEngine(kOptions, limits);
  TokenStream silent = tiny.Submit(GreedyRequest(TinyPrompt(300), 4));
  ReadAll(&silent);
  EXPECT_EQ(silent.usage().kv.kept_as, "int8=1");
  EngineRequest small = GreedyRequest(TinyPrompt(300, 2), 4);
  small.format = KvFormat{"int8", "int8"};
  TokenStream other = tiny.Submit(small);
  ReadAll(&other);
  EXPECT_EQ(other.usage().kv.kept_as, "same");
  EXPECT_EQ(other.usage().kv.compactions, 1);
  EngineRequest declined = GreedyRequest(TinyPrompt(300, 3), 4);
  declined.forgetting = Forgetting{.kept_as = "same"};
  TokenStream whole = tiny.Submit(declined);
  ReadAll(&whole);
  EXPECT_EQ(whole.usage().kv.kept_as, "same");
  tiny.ExpectDrained();
}

TEST(ForgettingTest, ALevelOrACeilingThatForbidsItIsTold) {
  TinyEngine tiny = MakeTinyEngine(kOptions, kLimits);
  EngineRequest near = ForgettingRequest(TinyPrompt(100), 4);
  near.quality = Quality::kNear;
  const Result<TokenStream> refused = tiny.engine->Submit(near);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("nothing worse than near"));

  TinyEngine strict = MakeTinyEngine(kOptions);
  const Result<TokenStream> forbidden =
      strict.engine->Submit(ForgettingRequest(TinyPrompt(100), 4));
  ASSERT_FALSE(forbidden.ok());
  EXPECT_THAT(forbidden.status().message(), HasSubstr("ceiling forbids: exact"));
}

TEST(ForgettingTest, TheEnginesOwnIsForWhoSaysNothingAndMayBeDeclined) {
  EngineLimits limits;
  limits.forgetting = Forgetting{.policy = std::string("keydiff") + kSettings, .ratio = 0.5};
  TinyEngine tiny = MakeTinyEngine(kOptions, limits);
  TokenStream silent = tiny.Submit(GreedyRequest(TinyPrompt(300), 4));
  ReadAll(&silent);
  EXPECT_EQ(silent.usage().kv.compactions, 1);
  EngineRequest exact = GreedyRequest(TinyPrompt(300), 4);
  exact.quality = Quality::kExact;
  ExpectAsSolo(kOptions, TinyPrompt(300), tiny.Run(exact).front());
  EngineRequest none = GreedyRequest(TinyPrompt(300), 4);
  none.forgetting = Forgetting{.policy = "none"};
  TokenStream declined = tiny.Submit(none);
  ReadAll(&declined);
  EXPECT_EQ(declined.usage().kv.policy, "none");
  EXPECT_EQ(declined.usage().kv.kept_tokens, 303);
  tiny.ExpectDrained();
}

TEST(ForgettingTest, SeveralChoicesForgetOnceAndReplyAsInOrder) {
  EngineRequest request = ForgettingRequest(TinyPrompt(300), 40);
  request.sampling.temperature = 1;
  request.sampling.seed = 3;
  request.choices = 4;
  for (const char* policy : {"keydiff", "snapkv"}) {
    request.forgetting->policy = std::string(policy) + kSettings;
    TinyEngine tiny = MakeTinyEngine(kOptions, kLimits);
    TokenStream stream = tiny.Submit(request);
    const std::vector<TinyReply> replies = ReadAll(&stream, 4);
    EXPECT_EQ(stream.usage().kv.compactions, 1) << policy;
    for (const TinyReply& reply : replies) EXPECT_THAT(reply.tokens, SizeIs(40));
    tiny.ExpectDrained();
  }
}

TEST(ForgettingTest, SessionsForgetAsEnginesDo) {
  for (const char* policy : {"keydiff", "snapkv", "expected_attention"}) {
    TinySession session = MakeTinySession(kOptions);
    GenerationRequest request;
    request.prompt = TinyPrompt(400);
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.max_tokens = 12;
    const Forgetting asked = {.policy = std::string(policy) + kSettings, .ratio = 0.5};
    request.forgetting = MakeForgettingRule(asked, {.layers = session.model->layer_shapes(),
                                                    .format = {.key = "f32", .value = "f32"},
                                                    .decoder = &session.model->spec()})
                             .value();
    const GenerationResult result = session.Run(request);
    EXPECT_EQ(result.compactions, 1);
    EXPECT_EQ(result.tokens, RunCold(ForgettingRequest(TinyPrompt(400), 12, policy)).tokens);
    EXPECT_LT(session.cache->KeptTokens(*session.session->sequence()), 260);
    // A chat goes on from there.
    const std::vector<TokenId> held = Join(request.prompt, result.tokens);
    request.prompt = Join(held, TinyPrompt(30, 5));
    EXPECT_GE(session.Run(request).cached_tokens, 400U);
  }
}

}  // namespace
}  // namespace swiftkv
