// SPDX-License-Identifier: Apache-2.0
// Tests generation over one sequence: ends, limits, reuse between replies, cancelling and errors.
#include "engine/generation_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/tiny_session.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(GenerationSessionTest, TokensDoNotDependOnTheSizeOfChunks) {
  const std::vector<TokenId> prompt = TinyPrompt(50);
  const std::vector<TokenId> expected = MakeTinySession({.chunk = 64}).Greedy(prompt, 20).tokens;
  ASSERT_THAT(expected, SizeIs(20));
  for (const int chunk : {1, 7, 16, 17}) {
    EXPECT_EQ(MakeTinySession({.chunk = chunk}).Greedy(prompt, 20).tokens, expected) << chunk;
  }
}

TEST(GenerationSessionTest, AProlongedPromptComputesOnlyWhatIsNew) {
  TinySession warm = MakeTinySession({});
  const std::vector<TokenId> first = TinyPrompt(30);
  const GenerationResult reply = warm.Greedy(first, 10);
  EXPECT_EQ(reply.cached_tokens, 0U);
  // The last token of the reply was sampled but never computed.
  const std::vector<TokenId> second = Join(Join(first, reply.tokens), TinyPrompt(5, 2));
  const GenerationResult next = warm.Greedy(second, 10);
  EXPECT_EQ(next.prompt_tokens, 45U);
  EXPECT_EQ(next.cached_tokens, 39U);
  EXPECT_EQ(next.prefix_end, PrefixEnd::kNeverSeen);
  EXPECT_EQ(next.prefix_differs_at, -1);
  EXPECT_EQ(next.tokens, MakeTinySession({}).Greedy(second, 10).tokens);
}

TEST(GenerationSessionTest, ThePromptsLastTokenIsAlwaysComputed) {
  TinySession session = MakeTinySession({});
  const std::vector<TokenId> prompt = TinyPrompt(33);
  const GenerationResult cold = session.Greedy(prompt, 8);
  const GenerationResult warm = session.Greedy(prompt, 8);
  EXPECT_EQ(warm.cached_tokens, 32U);
  EXPECT_EQ(warm.prefix_end, PrefixEnd::kWholePrompt);
  EXPECT_EQ(warm.tokens, cold.tokens);
}

TEST(GenerationSessionTest, ADifferentPromptKeepsTheCommonStartOnly) {
  TinySession session = MakeTinySession({});
  const std::vector<TokenId> shared = TinyPrompt(21);
  session.Greedy(Join(shared, TinyPrompt(20, 2)), 4);
  const std::vector<TokenId> other = Join(shared, TinyPrompt(20, 3));
  const GenerationResult result = session.Greedy(other, 12);
  EXPECT_EQ(result.cached_tokens, 21U);
  EXPECT_EQ(result.prefix_end, PrefixEnd::kTokenDiffers);
  EXPECT_EQ(result.prefix_differs_at, 21);
  EXPECT_EQ(result.tokens, MakeTinySession({}).Greedy(other, 12).tokens);
}

TEST(GenerationSessionTest, WhatASlidingWindowDroppedIsComputedAgain) {
  const TinySessionOptions options = {.family = TinyFamily::kGemma3, .window = 32};
  TinySession session = MakeTinySession(options);
  const std::vector<TokenId> shared = TinyPrompt(20);
  session.Greedy(Join(shared, TinyPrompt(100, 2)), 4);
  const std::vector<TokenId> other = Join(shared, TinyPrompt(20, 3));
  const GenerationResult result = session.Greedy(other, 12);
  EXPECT_EQ(result.cached_tokens, 0U);
  EXPECT_EQ(result.prefix_end, PrefixEnd::kEvicted);
  EXPECT_EQ(result.prefix_differs_at, -1);
  EXPECT_EQ(result.tokens, MakeTinySession(options).Greedy(other, 12).tokens);
}

TEST(GenerationSessionTest, PenaltiesSeeThePromptWhetherOrNotItIsCached) {
  GenerationRequest request;
  request.prompt = TinyPrompt(40);
  request.sampling.temperature = 0;
  request.sampling.repeat_penalty = 1.3F;
  request.sampling.frequency_penalty = 1;
  request.sampling.presence_penalty = 1;
  request.sampling.ignore_eos = true;
  request.max_tokens = 16;
  TinySession session = MakeTinySession({});
  const GenerationResult cold = session.Run(request);
  const GenerationResult warm = session.Run(request);
  EXPECT_EQ(warm.cached_tokens, 39U);
  EXPECT_EQ(warm.tokens, cold.tokens);
}

TEST(GenerationSessionTest, LimitsEndAReplyAndSayWhich) {
  TinySession session = MakeTinySession({.context = 48});
  const GenerationResult few = session.Greedy(TinyPrompt(40), 3);
  EXPECT_EQ(few.reason, FinishReason::kLength);
  EXPECT_EQ(few.limit, LengthLimit::kMaxTokens);
  EXPECT_THAT(few.tokens, SizeIs(3));
  const GenerationResult full = session.Greedy(TinyPrompt(40), -1);
  EXPECT_EQ(full.limit, LengthLimit::kContext);
  EXPECT_THAT(full.tokens, SizeIs(8));
  const GenerationResult none = session.Greedy(TinyPrompt(40), 0);
  EXPECT_EQ(none.limit, LengthLimit::kMaxTokens);
  EXPECT_THAT(none.tokens, IsEmpty());
  EXPECT_EQ(session.session->Length(), 40);
}

TEST(GenerationSessionTest, FullMemoryEndsAReplyWithinTheBound) {
  TinySession session = MakeTinySession({.cache_bytes = 128 << 10});
  const GenerationResult result = session.Greedy(TinyPrompt(40), -1);
  EXPECT_EQ(result.reason, FinishReason::kLength);
  EXPECT_EQ(result.limit, LengthLimit::kMemory);
  EXPECT_GT(result.tokens.size(), 0U);
  EXPECT_LE(session.cache->Balance().peak_bytes, 128U << 10);
  EXPECT_EQ(session.Greedy(TinyPrompt(10, 2), 4).tokens.size(), 4U);
}

TEST(GenerationSessionTest, ATokenThatEndsTheReplyIsNeverShown) {
  TinySession session = MakeTinySession({});
  ASSERT_THAT(session.vocabulary->end_of_generation_tokens(), SizeIs(testing::Ge(2)));
  for (const TokenId end : session.vocabulary->end_of_generation_tokens()) {
    GenerationRequest request;
    request.prompt = TinyPrompt(10);
    request.sampling.logit_bias = {{.token = end, .bias = 100}};
    const GenerationResult result = session.Run(request);
    EXPECT_EQ(result.reason, FinishReason::kStop);
    EXPECT_EQ(result.end_token, end);
    EXPECT_EQ(result.text, "");
    EXPECT_THAT(result.tokens, IsEmpty());
  }
}

TEST(GenerationSessionTest, TextComesInWholeCharactersThatAddUp) {
  TinySession session = MakeTinySession({});
  GenerationRequest request;
  request.prompt = TinyPrompt(10);
  request.sampling.temperature = 2;
  request.sampling.seed = 7;
  request.sampling.ignore_eos = true;
  request.max_tokens = 60;
  std::string joined;
  bool valid = true;
  GenerationCallbacks callbacks;
  callbacks.on_text = [&](std::string_view text) {
    joined += text;
    valid = valid && IsValidUtf8(text);
    return true;
  };
  const Result<GenerationResult> result = session.session->Generate(request, callbacks, nullptr);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(joined, result->text);
  EXPECT_EQ(result->text, TextOfTokens(*session.vocabulary, result->tokens));
  EXPECT_TRUE(valid);
  EXPECT_EQ(result->seed, 7U);
}

TEST(GenerationSessionTest, ProgressCountsCachedTokensAsDone) {
  TinySession session = MakeTinySession({.chunk = 16});
  session.Greedy(TinyPrompt(40), 0);
  GenerationRequest request;
  request.prompt = Join(TinyPrompt(40), TinyPrompt(20, 2));
  request.max_tokens = 0;
  std::vector<std::size_t> done;
  GenerationCallbacks callbacks;
  callbacks.on_prompt = [&](std::size_t now, std::size_t total) {
    EXPECT_EQ(total, 60U);
    done.push_back(now);
  };
  ASSERT_TRUE(session.session->Generate(request, callbacks, nullptr).ok());
  EXPECT_THAT(done, testing::ElementsAre(56, 60));
}

TEST(GenerationSessionTest, CancellingIsAResultAndTheCacheStaysUsable) {
  TinySession session = MakeTinySession({.chunk = 16});
  std::atomic<bool> cancel = true;
  GenerationRequest request;
  request.prompt = TinyPrompt(40);
  const Result<GenerationResult> before = session.session->Generate(request, {}, &cancel);
  ASSERT_TRUE(before.ok());
  EXPECT_EQ(before->reason, FinishReason::kCancelled);
  EXPECT_EQ(session.session->Length(), 0);

  cancel = false;
  GenerationCallbacks callbacks;
  callbacks.on_prompt = [&](std::size_t done, std::size_t) { cancel = done >= 32; };
  const Result<GenerationResult> during = session.session->Generate(request, callbacks, &cancel);
  ASSERT_TRUE(during.ok());
  EXPECT_EQ(during->reason, FinishReason::kCancelled);
  EXPECT_EQ(session.session->Length(), 32);

  const GenerationResult after = session.Greedy(request.prompt, 8);
  EXPECT_EQ(after.cached_tokens, 32U);
  EXPECT_EQ(after.tokens, MakeTinySession({}).Greedy(request.prompt, 8).tokens);
}

TEST(GenerationSessionTest, AReaderThatLeavesEndsTheReply) {
  TinySession session = MakeTinySession({});
  GenerationRequest request;
  request.prompt = TinyPrompt(10);
  request.sampling.ignore_eos = true;
  GenerationCallbacks callbacks;
  callbacks.on_text = [](std::string_view) { return false; };
  const Result<GenerationResult> result = session.session->Generate(request, callbacks, nullptr);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->reason, FinishReason::kCancelled);
  EXPECT_LT(result->tokens.size(), 10U);
}

TEST(GenerationSessionTest, PromptsThatCannotWorkAreRefusedBeforeAnythingIsComputed) {
  TinySession session = MakeTinySession({.context = 64, .cache_bytes = 28 << 10});
  const std::vector<TokenId> held = TinyPrompt(10);
  session.Greedy(held, 4);
  const std::int64_t length = session.session->Length();
  const auto error_of = [&](std::vector<TokenId> prompt) {
    GenerationRequest request;
    request.prompt = std::move(prompt);
    return session.session->Generate(request, {}, nullptr).status();
  };
  EXPECT_THAT(error_of({}).message(), HasSubstr("empty"));
  EXPECT_THAT(error_of(TinyPrompt(64)).message(), HasSubstr("context of 64"));
  EXPECT_THAT(error_of({1, -1}).message(), HasSubstr("got -1"));
  EXPECT_THAT(error_of({1, 1 << 30}).message(), HasSubstr("got 1073741824"));
  const Status memory = error_of(TinyPrompt(63));
  EXPECT_EQ(memory.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(session.session->Length(), length);
  EXPECT_GT(session.Greedy(Join(held, {1}), 2).cached_tokens, 9U);
}

}  // namespace
}  // namespace swiftkv
