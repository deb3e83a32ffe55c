// SPDX-License-Identifier: Apache-2.0
// Tests that requests of one engine share what they have in common, and only that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "engine/tiny_engine.h"

namespace swiftkv {
namespace {

using testing::Ge;
using testing::Le;
using testing::SizeIs;

TEST(SharingTest, PromptsAroundABlocksEndAreServedThriceAlike) {
  for (const int length : {15, 16, 17, 31, 32, 33, 128}) {
    TinyEngine tiny = MakeTinyEngine({});
    const std::vector<TokenId> prompt = TinyPrompt(length, length);
    for (int round = 0; round < 3; ++round) {
      TokenStream stream = tiny.Submit(GreedyRequest(prompt, round == 2 ? 1 : 20));
      const TinyReply reply = ReadAll(&stream).front();
      ExpectAsSolo({}, prompt, reply);
      const RequestUsage usage = stream.usage();
      EXPECT_LE(usage.cached_tokens, length - 1);
      if (round == 0) {
        EXPECT_EQ(usage.cached_tokens, 0);
      } else {
        EXPECT_GE(usage.cached_tokens, (length - 1) / 16 * 16);
      }
    }
    tiny.ExpectDrained();
  }
}

TEST(SharingTest, EveryLengthBehindASharedDocumentRepliesAsAlone) {
  const TinySessionOptions options = {.chunk = 24};
  TinyEngine tiny = MakeTinyEngine(options);
  const std::vector<TokenId> document = TinyPrompt(70);
  for (int extra = 1; extra <= 33; ++extra) {
    const std::vector<TokenId> prompt = Join(document, TinyPrompt(extra, extra));
    TokenStream stream = tiny.Submit(GreedyRequest(prompt, 8));
    ExpectAsSolo(options, prompt, ReadAll(&stream).front());
    EXPECT_GE(stream.usage().cached_tokens, extra > 1 ? 64 : 0);
  }
  tiny.ExpectDrained();
}

TEST(SharingTest, ASecondTurnFindsTheFirstTurnsReply) {
  for (int reply_tokens = 1; reply_tokens <= 33; ++reply_tokens) {
    TinyEngine tiny = MakeTinyEngine({});
    const std::vector<TokenId> first = TinyPrompt(20);
    const TinyReply reply = tiny.Run(GreedyRequest(first, reply_tokens)).front();
    const std::vector<TokenId> second = Join(Join(first, reply.tokens), TinyPrompt(5, 2));
    TokenStream stream = tiny.Submit(GreedyRequest(second, 10));
    ExpectAsSolo({}, second, ReadAll(&stream).front());
    const std::int64_t computed = 20 + reply_tokens - 1;
    EXPECT_LE(stream.usage().cached_tokens, computed);
    EXPECT_GE(stream.usage().cached_tokens, computed / 16 * 16);
  }
}

TEST(SharingTest, EqualPromptsAtOneMomentComputeThePrefixOnce) {
  for (int round = 0; round < 5; ++round) {
    const TinySessionOptions options = {.context = 512, .chunk = 48};
    TinyEngine tiny = MakeTinyEngine(options);
    const std::vector<TokenId> header = TinyPrompt(8 * 16, 50 + round);
    constexpr int kClients = 32;
    std::vector<TokenStream> streams(kClients);
    std::vector<std::thread> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.emplace_back([&, i] {
        streams[static_cast<std::size_t>(i)] =
            tiny.Submit(GreedyRequest(Join(header, TinyPrompt(3 + i % 7, i)), 6));
      });
    }
    for (std::thread& client : clients) client.join();
    std::int64_t computed = 0;
    for (int i = 0; i < kClients; ++i) {
      TokenStream& stream = streams[static_cast<std::size_t>(i)];
      const TinyReply reply = ReadAll(&stream).front();
      if (i < 8) ExpectAsSolo(options, Join(header, TinyPrompt(3 + i % 7, i)), reply);
      computed += stream.usage().prompt_tokens - stream.usage().cached_tokens;
    }
    EXPECT_LE(computed, 8 * 16 + kClients * 9) << "the header once, and the tails";
    // The header, a partial block and a reply's block for each: no block of the header twice.
    const std::uint64_t block = tiny.parts.session->footprint().PageBytes(16);
    EXPECT_LE(tiny.engine->Snapshot().balance.peak_bytes, (8 + 2 * kClients + 24) * block);
    tiny.ExpectDrained();
  }
}

TEST(SharingTest, ALeaderThatIsCancelledLeavesTheOthersToGoOn) {
  const TinySessionOptions options = {.context = 1024, .chunk = 16};
  TinyEngine tiny = MakeTinyEngine(options);
  const std::vector<TokenId> prompt = TinyPrompt(600);
  for (int round = 0; round < 5; ++round) {
    std::vector<TokenId> own = prompt;
    own[0] = round;
    EngineRequest leading = GreedyRequest(own, 40);
    leading.buffered_events = 3;  // unread, so that it never ends by itself
    TokenStream leader = tiny.Submit(leading);
    TokenStream follower = tiny.Submit(GreedyRequest(own, 4));
    while (tiny.engine->Snapshot().balance.live_tokens < 100) std::this_thread::yield();
    leader.Cancel();
    EXPECT_EQ(ReadAll(&leader).front().finish, FinishReason::kCancelled);
    const TinyReply reply = ReadAll(&follower).front();
    ExpectAsSolo(options, own, reply);
    EXPECT_GT(follower.usage().cached_tokens, 60) << "what the leader had computed";
  }
  tiny.ExpectDrained();
}

TEST(SharingTest, WhatAHalfComputedPromptLeftBehindIsRight) {
  const TinySessionOptions options = {.context = 512, .chunk = 16, .cache_bytes = 512 << 10};
  TinyEngine tiny = MakeTinyEngine(options);
  const std::vector<TokenId> prompt = TinyPrompt(8 * 16);
  std::vector<TokenStream> churn;
  for (int i = 0; i < 4; ++i) churn.push_back(tiny.Submit(GreedyRequest(TinyPrompt(60, i), 300)));
  for (int round = 0; round < 10; ++round) {
    TokenStream stream = tiny.Submit(GreedyRequest(prompt, 4));
    for (int i = 0; i < round; ++i) std::this_thread::yield();
    stream.Cancel();
  }
  const TinyReply reply = tiny.Run(GreedyRequest(prompt, 12)).front();
  ExpectAsSolo(options, prompt, reply);
  const std::vector<TokenId> longer = Join(prompt, TinyPrompt(9, 7));
  ExpectAsSolo(options, longer, tiny.Run(GreedyRequest(longer, 12)).front());
  for (TokenStream& stream : churn) EXPECT_THAT(ReadAll(&stream).front().tokens, SizeIs(300));
  tiny.ExpectDrained();
}

TEST(SharingTest, SaltsAndOptingOutKeepPromptsApart) {
  TinyEngine tiny = MakeTinyEngine({});
  const auto cached = [&](const std::string& tenant, const std::string& salt, bool share) {
    EngineRequest request = GreedyRequest(TinyPrompt(64), 2);
    request.tenant_salt = tenant;
    request.request_salt = salt;
    request.share_prefix = share;
    TokenStream stream = tiny.Submit(request);
    ReadAll(&stream);
    return std::pair(stream.usage().cached_tokens, stream.usage().prefix_end);
  };
  EXPECT_EQ(cached("a", "", true), std::pair(std::int64_t{0}, PrefixEnd::kNeverSeen));
  EXPECT_EQ(cached("", "a", true).first, 0);
  EXPECT_EQ(cached("a", "b", true).first, 0);
  EXPECT_EQ(cached("a", "", false), std::pair(std::int64_t{0}, PrefixEnd::kNotShared));
  EXPECT_THAT(cached("a", "", true).first, Ge(48));
  EXPECT_EQ(cached("a", "", true).second, PrefixEnd::kWholePrompt);
}

TEST(SharingTest, ARequestIsToldWhereItsPromptLeftTheKnownOne) {
  TinyEngine tiny = MakeTinyEngine({});
  tiny.Run(GreedyRequest(TinyPrompt(64), 2));
  std::vector<TokenId> other = TinyPrompt(64);
  other[40] = 199;
  TokenStream stream = tiny.Submit(GreedyRequest(other, 2));
  ReadAll(&stream);
  EXPECT_EQ(stream.usage().prefix_end, PrefixEnd::kTokenDiffers);
  EXPECT_EQ(stream.usage().prefix_differs_at, 40);
  EXPECT_THAT(stream.usage().cached_tokens, testing::AllOf(Ge(32), Le(40)));
}

TEST(SharingTest, APoolFullOfCachedBlocksStillServesEverybody) {
  const TinySessionOptions options = {.cache_bytes = 256 << 10};
  TinyEngine tiny = MakeTinyEngine(options);
  for (int round = 0; round < 40; ++round) {
    const std::vector<TokenId> prompt = TinyPrompt(100 + round, round % 5);
    const TinyReply reply = tiny.Run(GreedyRequest(prompt, 6)).front();
    if (round % 8 == 7) ExpectAsSolo({}, prompt, reply);
  }
  EXPECT_GT(tiny.engine->Snapshot().prefixes.evicted_blocks, 0U);
  EXPECT_GT(tiny.engine->Snapshot().cached_tokens, 0U);
  tiny.ExpectDrained();
}

TEST(SharingTest, EveryPromptIsCountedOnceHoweverOftenItIsLookedUp) {
  const std::uint64_t room = MakeTinySession({}).session->footprint().PageBytes(330) + (48 << 10);
  TinyEngine tiny = MakeTinyEngine({.context = 512, .chunk = 32, .cache_bytes = room});
  // The engine waits at the first token until all requests are there, so that they grow together.
  std::latch all_submitted(1);
  std::vector<TokenStream> streams;
  for (int i = 0; i < 8; ++i) {
    EngineRequest request = GreedyRequest(Join(TinyPrompt(32), TinyPrompt(8, i)), 150);
    if (i == 0) request.on_ready = [&all_submitted] { all_submitted.wait(); };
    streams.push_back(tiny.Submit(std::move(request)));
  }
  all_submitted.count_down();
  for (TokenStream& stream : streams) ReadAll(&stream);
  tiny.ExpectDrained();
  const EngineSnapshot snapshot = tiny.engine->Snapshot();
  EXPECT_GT(snapshot.preemptions, 0U) << "so that some are looked up again";
  EXPECT_EQ(snapshot.prefixes.queried_tokens, 8U * 40);
  EXPECT_GE(snapshot.prefixes.hit_tokens, 7U * 32);
  EXPECT_LE(snapshot.prefixes.hit_tokens, 7U * 39) << "not what a reply found of itself again";
}

TEST(SharingTest, ASecondEngineOverTheCacheFindsWhatTheFirstComputed) {
  TinyEngine tiny = MakeTinyEngine({});
  tiny.Run(GreedyRequest(TinyPrompt(64), 4));
  tiny.ExpectDrained();
  const EngineParts parts = {.model = tiny.parts.model.get(),
                             .vocabulary = tiny.parts.vocabulary.get(),
                             .cache = tiny.parts.cache.get(),
                             .format = {.key = "f32", .value = "f32"}};
  tiny.engine = EngineThread::Start(parts, {}).value();
  TokenStream stream = tiny.Submit(GreedyRequest(TinyPrompt(64), 4));
  ExpectAsSolo({}, TinyPrompt(64), ReadAll(&stream).front());
  EXPECT_GE(stream.usage().cached_tokens, 48);
}

TEST(SharingTest, PenaltiesSeeThePromptWhetherOrNotItIsCached) {
  EngineRequest request = GreedyRequest(TinyPrompt(40), 16);
  request.sampling.repeat_penalty = 1.3F;
  request.sampling.frequency_penalty = 1;
  request.sampling.presence_penalty = 1;
  TinyEngine tiny = MakeTinyEngine({});
  const std::vector<TokenId> cold = tiny.Run(request).front().tokens;
  TokenStream warm = tiny.Submit(request);
  EXPECT_EQ(ReadAll(&warm).front().tokens, cold);
  EXPECT_GE(warm.usage().cached_tokens, 32);
}

TEST(SharingTest, WindowsAreFoundWithWhatTheySee) {
  const TinySessionOptions options = {.family = TinyFamily::kGemma3, .chunk = 24, .window = 32};
  TinyEngine tiny = MakeTinyEngine(options);
  const std::vector<TokenId> document = TinyPrompt(100);
  for (int i = 0; i < 6; ++i) {
    const std::vector<TokenId> prompt = Join(document, TinyPrompt(10 + i, i));
    TokenStream stream = tiny.Submit(GreedyRequest(prompt, 40));
    ExpectAsSolo(options, prompt, ReadAll(&stream).front());
    EXPECT_GE(stream.usage().cached_tokens, i > 0 ? 80 : 0);
  }
  tiny.ExpectDrained();
}

}  // namespace
}  // namespace swiftkv
