// SPDX-License-Identifier: Apache-2.0
// Tests that log-probabilities of a prompt are those of its own tokens, whatever is cached, however
// it is cut, and whoever takes its place meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/tiny_engine.h"

namespace swiftkv {
namespace {

EngineRequest Telling(std::vector<TokenId> prompt, int max_tokens) {
  EngineRequest request = GreedyRequest(std::move(prompt), max_tokens);
  request.prompt_logprobs = 2;
  return request;
}

struct Told {
  std::vector<PromptToken> prompt;
  std::vector<TokenId> reply;
};

Told Read(TokenStream* stream) {
  Told told;
  TokenEvent event;
  while (stream->Next(&event, kPatience) == StreamOutcome::kEvent) {
    EXPECT_TRUE(event.prompt.empty() || told.reply.empty()) << "the prompt comes first";
    told.prompt.insert(told.prompt.end(), event.prompt.begin(), event.prompt.end());
    if (event.token != kNoToken) told.reply.push_back(event.token);
  }
  EXPECT_TRUE(stream->status().ok());
  return told;
}

// Compares with a pass of its own over the same tokens.
void ExpectToldAsSolo(const TinySessionOptions& options, const std::vector<TokenId>& prompt,
                      const Told& told) {
  ASSERT_EQ(told.prompt.size(), prompt.size());
  EXPECT_FALSE(told.prompt[0].logprob);
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    EXPECT_EQ(told.prompt[i].token, prompt[i]);
    if (i == 0) continue;
    ASSERT_TRUE(told.prompt[i].logprob);
    EXPECT_EQ(told.prompt[i].logprob->token, prompt[i]);
    ASSERT_EQ(told.prompt[i].top.size(), 2U);
    EXPECT_GE(told.prompt[i].top[0].logprob, told.prompt[i].logprob->logprob);
  }
  const TinySession solo = MakeTinySession(options);
  Executor executor(solo.model.get(), solo.cache.get());
  const SequenceId sequence = solo.cache->CreateSequence().value();
  for (std::size_t i = 0; i + 1 < prompt.size(); ++i) {
    StepPlan plan;
    plan.tokens = {prompt[i]};
    PlannedSlice slice;
    slice.rows = {.sequence = sequence,
                  .first_position = static_cast<std::int64_t>(i),
                  .num_rows = 1,
                  .num_outputs = 1};
    plan.slices.push_back(slice);
    const std::span<const float> logits = executor.Execute(plan, nullptr).value();
    EXPECT_NEAR(told.prompt[i + 1].logprob->logprob, LogprobOf(logits, prompt[i + 1]).logprob,
                kLogprobBound);
  }
}

TEST(PromptLogprobsTest, AreThoseOfEachTokenGivenThoseBefore) {
  for (const int chunk : {7, 16, 64}) {
    for (const int length : {1, 2, 16, 17, 100}) {
      const TinySessionOptions options = {.chunk = chunk};
      TinyEngine tiny = MakeTinyEngine(options);
      const std::vector<TokenId> prompt = TinyPrompt(length, chunk);
      TokenStream beside = tiny.Submit(GreedyRequest(TinyPrompt(40, 9), 20));
      TokenStream stream = tiny.Submit(Telling(prompt, 3));
      const Told told = Read(&stream);
      EXPECT_EQ(told.reply.size(), 3U);
      ExpectToldAsSolo(options, prompt, told);
      ExpectAsSolo(options, TinyPrompt(40, 9), ReadAll(&beside).front());
      tiny.ExpectDrained();
    }
  }
}

TEST(PromptLogprobsTest, AreToldAgainWhereThePromptIsCachedAndServeOthers) {
  TinyEngine tiny = MakeTinyEngine({});
  const std::vector<TokenId> prompt = TinyPrompt(7 * 16 + 5);
  tiny.Run(GreedyRequest(prompt, 1));
  for (int round = 0; round < 2; ++round) {
    TokenStream stream = tiny.Submit(Telling(prompt, 0));
    const Told told = Read(&stream);
    EXPECT_TRUE(told.reply.empty());
    ExpectToldAsSolo({}, prompt, told);
    EXPECT_EQ(stream.usage().cached_tokens, 0);
    EXPECT_EQ(stream.usage().prefix_end, PrefixEnd::kNotShared);
  }
  const std::vector<TokenId> fresh = TinyPrompt(40, 5);
  TokenStream telling = tiny.Submit(Telling(fresh, 1));
  Read(&telling);
  TokenStream taking = tiny.Submit(GreedyRequest(fresh, 1));
  ReadAll(&taking);
  EXPECT_EQ(taking.usage().cached_tokens, 32) << "its whole blocks";
  tiny.ExpectDrained();
}

TEST(PromptLogprobsTest, AreToldOnceWhereThePromptLosesItsPlace) {
  // Room for one of them: who comes first takes it from the other, in the middle of its prompt.
  const std::uint64_t bytes = MakeTinySession({}).session->footprint().PageBytes(420);
  TinyEngine tiny =
      MakeTinyEngine({.context = 512, .chunk = 16, .cache_bytes = bytes + (48 << 10)});
  const std::vector<TokenId> prompt = TinyPrompt(400);
  EngineRequest telling = Telling(prompt, 2);
  telling.buffered_events = 3;  // pauses after three chunks, and whoever is paused gives way
  TokenStream stream = tiny.Submit(telling);
  while (tiny.engine->Snapshot().balance.live_tokens == 0) std::this_thread::yield();
  EXPECT_THAT(tiny.Run(GreedyRequest(TinyPrompt(300, 2), 100)).front().tokens,
              testing::SizeIs(100));
  const Told told = Read(&stream);
  ExpectToldAsSolo({.context = 512}, prompt, told);
  EXPECT_EQ(told.reply.size(), 2U);
  EXPECT_GT(stream.usage().preemptions, 0);
  tiny.ExpectDrained();
}

}  // namespace
}  // namespace swiftkv
