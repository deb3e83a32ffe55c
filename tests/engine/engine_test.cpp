// SPDX-License-Identifier: Apache-2.0
// Tests requests that are computed together: replies, ends, cancelling, limits and backpressure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "engine/tiny_engine.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

TEST(EngineTest, RequestsTogetherReplyAsEachDoesAlone) {
  const TinySessionOptions options = {.chunk = 32, .threads = 2};
  TinyEngine tiny = MakeTinyEngine(options);
  std::vector<std::vector<TokenId>> prompts;
  std::vector<TokenStream> streams;
  for (int i = 0; i < 10; ++i) {
    prompts.push_back(TinyPrompt(5 + 13 * i, i));
    streams.push_back(tiny.Submit(GreedyRequest(prompts.back(), 20 + i)));
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const TinyReply reply = ReadAll(&streams[i]).front();
    EXPECT_THAT(reply.tokens, SizeIs(20 + i));
    EXPECT_EQ(reply.finish, FinishReason::kLength);
    EXPECT_EQ(reply.limit, LengthLimit::kMaxTokens);
    ExpectAsSolo(options, prompts[i], reply);
    const RequestUsage usage = streams[i].usage();
    EXPECT_EQ(usage.prompt_tokens, static_cast<std::int64_t>(prompts[i].size()));
    EXPECT_EQ(usage.completion_tokens, static_cast<std::int64_t>(20 + i));
    EXPECT_GE(usage.total_seconds, usage.first_token_seconds);
    EXPECT_GE(usage.first_token_seconds, usage.queue_seconds);
  }
  const EngineSnapshot snapshot = tiny.engine->Snapshot();
  EXPECT_LT(snapshot.steps, 100U) << "steps are shared";
  tiny.ExpectDrained();
}

TEST(EngineTest, TokensDoNotDependOnTheSizeOfChunks) {
  const std::vector<TokenId> prompt = TinyPrompt(65);
  for (const int chunk : {1, 7, 16, 17, 32, 64, 128}) {
    for (const int length : {chunk - 1, chunk, chunk + 1, 2 * chunk + 1}) {
      if (length < 1 || length > 200) continue;
      const TinySessionOptions options = {.chunk = chunk};
      TinyEngine tiny = MakeTinyEngine(options);
      const std::vector<TokenId> own = TinyPrompt(length, chunk);
      TokenStream beside = tiny.Submit(GreedyRequest(prompt, 10));
      TokenStream stream = tiny.Submit(GreedyRequest(own, 10));
      const TinyReply reply = ReadAll(&stream).front();
      ExpectAsSolo({}, own, reply);
      ExpectAsSolo({}, prompt, ReadAll(&beside).front());
      tiny.ExpectDrained();
    }
  }
}

TEST(EngineTest, SlidingWindowsReplyAsAlone) {
  const TinySessionOptions options = {.family = TinyFamily::kGemma3, .chunk = 24, .window = 32};
  TinyEngine tiny = MakeTinyEngine(options);
  std::vector<TokenStream> streams;
  const std::vector<int> lengths = {31, 32, 33, 64, 128};
  for (const int length : lengths) {
    streams.push_back(tiny.Submit(GreedyRequest(TinyPrompt(length, length), 64)));
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const TinyReply reply = ReadAll(&streams[i]).front();
    EXPECT_THAT(reply.tokens, SizeIs(64));
    ExpectAsSolo(options, TinyPrompt(lengths[i], lengths[i]), reply);
  }
  tiny.ExpectDrained();
}

TEST(EngineTest, LimitsEndAReplyAndSayWhich) {
  TinyEngine tiny = MakeTinyEngine({.context = 48});
  const TinyReply full = tiny.Run(GreedyRequest(TinyPrompt(40), -1)).front();
  EXPECT_EQ(full.limit, LengthLimit::kContext);
  EXPECT_THAT(full.tokens, SizeIs(8));
  const TinyReply none = tiny.Run(GreedyRequest(TinyPrompt(40), 0)).front();
  EXPECT_EQ(none.finish, FinishReason::kLength);
  EXPECT_EQ(none.limit, LengthLimit::kMaxTokens);
  EXPECT_THAT(none.tokens, SizeIs(0));
  tiny.ExpectDrained();
}

TEST(EngineTest, ATokenThatEndsTheReplyIsToldApart) {
  TinyEngine tiny = MakeTinyEngine({});
  const TokenId end = tiny.parts.vocabulary->end_of_generation_tokens().front();
  EngineRequest request;
  request.prompt = TinyPrompt(10);
  request.sampling.logit_bias = {{.token = end, .bias = 100}};
  TokenStream stream = tiny.Submit(request);
  TokenEvent event;
  ASSERT_EQ(stream.Next(&event, kPatience), StreamOutcome::kEvent);
  EXPECT_EQ(event.finish, FinishReason::kStop);
  EXPECT_EQ(event.end_token, end);
  EXPECT_EQ(event.token, kNoToken);
  EXPECT_EQ(event.text, "");
  EXPECT_EQ(stream.Next(&event, kPatience), StreamOutcome::kEnd);
  EXPECT_EQ(stream.usage().completion_tokens, 0);
}

TEST(EngineTest, SeededRepliesDoNotDependOnTheBatch) {
  EngineRequest request;
  request.prompt = TinyPrompt(35);
  request.sampling.temperature = 1;
  request.sampling.seed = 5;
  request.sampling.ignore_eos = true;
  request.max_tokens = 30;
  const std::vector<TokenId> alone = MakeTinyEngine({}).Run(request).front().tokens;
  TinyEngine tiny = MakeTinyEngine({.chunk = 16});
  std::vector<TokenStream> others;
  for (int i = 0; i < 6; ++i) others.push_back(tiny.Submit(GreedyRequest(TinyPrompt(20, i), 40)));
  TokenStream stream = tiny.Submit(request);
  EXPECT_EQ(ReadAll(&stream).front().tokens, alone);
  EXPECT_EQ(stream.usage().seed, 5U);
}

TEST(EngineTest, ChoicesShareTheirPromptAndDrawByTheirOwnSeeds) {
  EngineRequest request;
  request.prompt = TinyPrompt(3 * 16 + 2);
  request.sampling.temperature = 1;
  request.sampling.seed = 9;
  request.sampling.ignore_eos = true;
  request.max_tokens = 20;
  request.choices = 4;
  TinyEngine tiny = MakeTinyEngine({});
  TokenStream stream = tiny.Submit(request);
  const std::vector<TinyReply> replies = ReadAll(&stream, 4);
  EXPECT_EQ(stream.usage().completion_tokens, 80);
  EXPECT_EQ(stream.usage().prompt_tokens, 50);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(replies[i].ends, 1);
    EngineRequest single = request;
    single.choices = 1;
    single.sampling.seed = 9 + i;
    EXPECT_EQ(tiny.Run(single).front().tokens, replies[i].tokens) << i;
  }
  EXPECT_NE(replies[0].tokens, replies[1].tokens);
  tiny.ExpectDrained();
}

TEST(EngineTest, ACancelledRequestEndsAndGivesItsMemoryBack) {
  TinyEngine tiny = MakeTinyEngine({.context = 1024, .chunk = 16});
  TokenStream decoding = tiny.Submit(GreedyRequest(TinyPrompt(10), -1));
  TokenEvent event;
  ASSERT_EQ(decoding.Next(&event, kPatience), StreamOutcome::kEvent);
  decoding.Cancel();
  EXPECT_EQ(ReadAll(&decoding).front().finish, FinishReason::kCancelled);
  // In the middle of a long prompt, round after round.
  for (int i = 0; i < 20; ++i) {
    EngineRequest request = GreedyRequest(TinyPrompt(900, i), 40);
    request.buffered_events = 3;  // unread, so that it never ends by itself
    TokenStream prompt = tiny.Submit(request);
    while (tiny.engine->Snapshot().balance.live_tokens == 0) std::this_thread::yield();
    prompt.Cancel();
    const TinyReply reply = ReadAll(&prompt).front();
    EXPECT_EQ(reply.finish, FinishReason::kCancelled);
    EXPECT_EQ(reply.ends, 1);
  }
  // By letting go of the stream.
  { const TokenStream left = tiny.Submit(GreedyRequest(TinyPrompt(100), -1)); }
  tiny.ExpectDrained();
}

TEST(EngineTest, AFinishedChoiceEndsWithinAStepAndTheOthersGoOn) {
  EngineRequest request;
  request.prompt = TinyPrompt(20);
  request.sampling.temperature = 1;
  request.sampling.seed = 3;
  request.sampling.ignore_eos = true;
  request.max_tokens = 40;
  request.choices = 3;
  TinyEngine tiny = MakeTinyEngine({});
  const std::vector<TinyReply> whole = tiny.Run(request);
  request.buffered_events = 3;  // the engine waits after each step until it is read
  std::uint64_t before = 120;
  for (const std::size_t ended : {0U, 1U, 2U}) {
    TokenStream stream = tiny.Submit(request);
    while (tiny.engine->Snapshot().generated_tokens < before + 3) std::this_thread::yield();
    stream.Finish(static_cast<int>(ended));
    stream.Finish(7);
    const std::vector<TinyReply> replies = ReadAll(&stream, 3);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(replies[i].ends, 1);
      if (i == ended) continue;
      EXPECT_EQ(replies[i].finish, FinishReason::kLength);
      EXPECT_EQ(replies[i].tokens, whole[i].tokens);
    }
    EXPECT_EQ(replies[ended].finish, FinishReason::kStop);
    EXPECT_THAT(replies[ended].tokens, SizeIs(1));
    before += 81;
  }
  tiny.ExpectDrained();
}

TEST(EngineTest, AChoiceIsFinishedBeforeThePromptIsComputed) {
  TinyEngine tiny = MakeTinyEngine({.context = 1024, .chunk = 16});
  for (const int kept : {0, 1, 2, -1}) {
    EngineRequest request = GreedyRequest(TinyPrompt(900, kept + 1), 20);
    request.choices = 3;
    request.buffered_events = 3;  // unread, so that none ends by itself
    TokenStream stream = tiny.Submit(request);
    for (int i = 0; i < 3; ++i) {
      if (i != kept) stream.Finish(i);
    }
    const std::vector<TinyReply> replies = ReadAll(&stream, 3);
    for (int i = 0; i < 3; ++i) {
      const TinyReply& reply = replies[static_cast<std::size_t>(i)];
      EXPECT_EQ(reply.finish, i == kept ? FinishReason::kLength : FinishReason::kStop);
      EXPECT_EQ(reply.ends, 1);
    }
    if (kept >= 0)
      ExpectAsSolo({.context = 1024}, request.prompt, replies[static_cast<std::size_t>(kept)]);
  }
  tiny.ExpectDrained();
}

TEST(EngineTest, CancelledRequestsInTheQueueNeverRun) {
  TinyEngine tiny = MakeTinyEngine({.context = 512}, {.max_sequences = 1});
  std::latch submitted(1);
  EngineRequest endless = GreedyRequest(TinyPrompt(10), 400);
  endless.on_ready = [&submitted] { submitted.wait(); };  // the engine stands still until then
  TokenStream running = tiny.Submit(std::move(endless));
  TokenEvent event;
  ASSERT_EQ(running.Next(&event, kPatience), StreamOutcome::kEvent);
  std::vector<TokenStream> queued;
  for (int i = 0; i < 20; ++i) queued.push_back(tiny.Submit(GreedyRequest(TinyPrompt(30, i), 400)));
  TokenStream live = tiny.Submit(GreedyRequest(TinyPrompt(5), 3));
  for (TokenStream& stream : queued) stream.Cancel();
  running.Cancel();
  submitted.count_down();
  for (TokenStream& stream : queued) {
    EXPECT_EQ(ReadAll(&stream).front().finish, FinishReason::kCancelled);
    EXPECT_EQ(stream.usage().completion_tokens, 0);
  }
  EXPECT_THAT(ReadAll(&live).front().tokens, SizeIs(3));
  EXPECT_LE(tiny.engine->Snapshot().prompt_tokens, 15U + 30U);
  tiny.ExpectDrained();
}

TEST(EngineTest, AFullQueueRefusesAndTakesAgainLater) {
  TinyEngine tiny = MakeTinyEngine({.context = 512}, {.max_sequences = 1, .max_queue = 2});
  std::latch submitted(1);
  EngineRequest endless = GreedyRequest(TinyPrompt(10), 400);
  endless.on_ready = [&submitted] { submitted.wait(); };  // the engine stands still until then
  TokenStream running = tiny.Submit(std::move(endless));
  TokenEvent event;
  ASSERT_EQ(running.Next(&event, kPatience), StreamOutcome::kEvent);
  TokenStream first = tiny.Submit(GreedyRequest(TinyPrompt(10), 2));
  TokenStream second = tiny.Submit(GreedyRequest(TinyPrompt(10), 2));
  const Result<TokenStream> third = tiny.engine->Submit(GreedyRequest(TinyPrompt(10), 2));
  EXPECT_EQ(third.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(third.status().message(), HasSubstr("queue is full"));
  running.Cancel();
  submitted.count_down();
  EXPECT_THAT(ReadAll(&first).front().tokens, SizeIs(2));
  EXPECT_THAT(ReadAll(&second).front().tokens, SizeIs(2));
  EXPECT_THAT(tiny.Run(GreedyRequest(TinyPrompt(10), 2)).front().tokens, SizeIs(2));
}

TEST(EngineTest, WhatCanNeverWorkIsRefusedAtOnce) {
  TinyEngine tiny = MakeTinyEngine({.context = 64, .cache_bytes = 28 << 10}, {.max_sequences = 4});
  const auto error_of = [&](const EngineRequest& request) {
    return tiny.engine->Submit(request).status();
  };
  EXPECT_THAT(error_of(GreedyRequest({}, 1)).message(), HasSubstr("empty"));
  EXPECT_THAT(error_of(GreedyRequest(TinyPrompt(64), 1)).message(), HasSubstr("context of 64"));
  EXPECT_THAT(error_of(GreedyRequest({1, -1}, 1)).message(), HasSubstr("got -1"));
  EngineRequest choices = GreedyRequest(TinyPrompt(4), 1);
  choices.choices = 5;
  EXPECT_THAT(error_of(choices).message(), HasSubstr("[1, 4], not: 5"));
  EngineRequest sampling = GreedyRequest(TinyPrompt(4), 1);
  sampling.sampling.top_p = 2;
  EXPECT_EQ(error_of(sampling).code(), StatusCode::kInvalidArgument);
  EngineRequest format = GreedyRequest(TinyPrompt(4), 1);
  format.format = KvFormat{.key = "int8", .value = "int8"};
  EXPECT_THAT(error_of(format).message(), HasSubstr("int8 has near"));
  const Status memory = error_of(GreedyRequest(TinyPrompt(60), 1));
  EXPECT_EQ(memory.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(memory.message(), HasSubstr("the limit is 28"));
  EXPECT_THAT(tiny.Run(GreedyRequest(TinyPrompt(4), 2)).front().tokens, SizeIs(2));
  tiny.engine->Shutdown();
  EXPECT_EQ(error_of(GreedyRequest(TinyPrompt(4), 1)).code(), StatusCode::kCancelled);
}

TEST(EngineTest, FormatsMixInOneBatch) {
  TinySessionOptions options;
  TinyEngine tiny = MakeTinyEngine(options, {.ceiling = Quality::kAny});
  std::vector<TokenStream> streams;
  for (const char* format : {"f32", "f16", "int8", "f32"}) {
    EngineRequest request = GreedyRequest(TinyPrompt(40), 20);
    request.format = KvFormat{.key = format, .value = format};
    streams.push_back(tiny.Submit(request));
  }
  const TinyReply exact = ReadAll(&streams[0]).front();
  ExpectAsSolo(options, TinyPrompt(40), exact);
  const TinyReply half = ReadAll(&streams[1]).front();
  const TinyReply lossy = ReadAll(&streams[2]).front();
  EXPECT_NEAR(half.logprobs[0], exact.logprobs[0], 0.01);
  EXPECT_NEAR(lossy.logprobs[0], exact.logprobs[0], 0.2);
  EXPECT_NE(lossy.logprobs[0], exact.logprobs[0]);
  EXPECT_EQ(ReadAll(&streams[3]).front().tokens.size(), 20U);
  tiny.ExpectDrained();
}

TEST(EngineTest, AReaderThatStopsReadingPausesItsRequestOnly) {
  TinyEngine tiny = MakeTinyEngine({.context = 512});
  EngineRequest request = GreedyRequest(TinyPrompt(10), 100);
  request.buffered_events = 4;
  TokenStream slow = tiny.Submit(request);
  EXPECT_THAT(tiny.Run(GreedyRequest(TinyPrompt(10, 2), 200)).front().tokens, SizeIs(200));
  while (tiny.engine->Snapshot().generated_tokens < 204) std::this_thread::yield();
  EXPECT_EQ(tiny.engine->Snapshot().generated_tokens, 204U);
  EXPECT_EQ(tiny.engine->Snapshot().running, 1);
  const TinyReply reply = ReadAll(&slow).front();
  EXPECT_THAT(reply.tokens, SizeIs(100));
  ExpectAsSolo({.context = 512}, TinyPrompt(10), reply);
  tiny.ExpectDrained();
}

TEST(EngineTest, ReadersAreToldWhenThereIsSomethingToRead) {
  std::atomic<int> told = 0;  // outlives the engine
  TinyEngine tiny = MakeTinyEngine({});
  EngineRequest request = GreedyRequest(TinyPrompt(10), 5);
  request.on_ready = [&told] { ++told; };
  tiny.Run(request);
  tiny.engine->Shutdown();
  EXPECT_EQ(told, 6) << "five tokens and the end";
}

TEST(EngineTest, ShutdownEndsEverythingAndStreamsStayReadable) {
  TinyEngine tiny = MakeTinyEngine({.context = 1024, .chunk = 16}, {.max_sequences = 2});
  std::vector<TokenStream> streams;
  for (int i = 0; i < 5; ++i) streams.push_back(tiny.Submit(GreedyRequest(TinyPrompt(300, i), -1)));
  EXPECT_FALSE(tiny.engine->Drain(std::chrono::milliseconds(1)));
  tiny.engine->Shutdown();
  for (TokenStream& stream : streams) {
    EXPECT_EQ(ReadAll(&stream).front().finish, FinishReason::kCancelled);
  }
  tiny.ExpectDrained();
}

TEST(EngineTest, GreedyRepliesDifferAtNearTiesOnlyWhateverRunsBeside) {
  const TinySessionOptions options = {.chunk = 64};
  const std::vector<TokenId> prompt = TinyPrompt(24);
  for (const int copies : {1, 2, 4, 8, 16}) {
    TinyEngine tiny = MakeTinyEngine(options);
    std::vector<TokenStream> streams;
    for (int i = 0; i < copies; ++i) {
      EngineRequest request = GreedyRequest(prompt, 16);
      request.share_prefix = false;
      streams.push_back(tiny.Submit(request));
    }
    for (TokenStream& stream : streams) ExpectAsSolo(options, prompt, ReadAll(&stream).front());
  }
}

}  // namespace
}  // namespace swiftkv
