// SPDX-License-Identifier: Apache-2.0
// Tests that what is compressed once serves many, gives way to nobody's loss, and comes back alike.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "engine/tiny_engine.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr TinySessionOptions kOptions = {.context = 1024, .chunk = 64};
constexpr EngineLimits kLimits = {.ceiling = Quality::kAny};
constexpr const char* kPolicy = "keydiff:recent=16,min_tokens=64";

EngineRequest ForgettingRequest(std::vector<TokenId> prompt, int max_tokens, double ratio = 0.5) {
  EngineRequest request = GreedyRequest(std::move(prompt), max_tokens);
  request.forgetting = Forgetting{.policy = kPolicy, .ratio = ratio};
  return request;
}

EngineRequest CompressRequest(std::vector<TokenId> prefix) {
  EngineRequest request = ForgettingRequest(std::move(prefix), 0);
  request.keep_compressed_ms = 600'000;
  return request;
}

TEST(ForgettingSharingTest, EightUsersOfACompressedPrefixHaveItOnce) {
  TinyEngine tiny = MakeTinyEngine(kOptions, kLimits);
  const std::vector<TokenId> document = TinyPrompt(40 * 16);
  TokenStream compress = tiny.Submit(CompressRequest(document));
  const TinyReply none = ReadAll(&compress).front();
  ASSERT_TRUE(compress.status().ok()) << compress.status().message();
  EXPECT_THAT(none.tokens, SizeIs(0));
  EXPECT_EQ(compress.usage().kv.compactions, 1);

  // The engine waits at the first token until all are there, so that they run together.
  std::latch all_submitted(1);
  std::vector<TokenStream> users;
  for (int i = 0; i < 8; ++i) {
    EngineRequest request = ForgettingRequest(Join(document, TinyPrompt(5 + i, i)), 12);
    if (i == 0) request.on_ready = [&all_submitted] { all_submitted.wait(); };
    users.push_back(tiny.Submit(std::move(request)));
  }
  all_submitted.count_down();
  for (TokenStream& user : users) {
    EXPECT_THAT(ReadAll(&user).front().tokens, SizeIs(12));
    EXPECT_EQ(user.usage().kv.compressed_tokens, 40 * 16);
    EXPECT_EQ(user.usage().kv.compactions, 0);
  }
  const SegmentTotals segments = tiny.engine->Snapshot().segments;
  EXPECT_EQ(segments.segments, 1U);
  EXPECT_EQ(segments.adoptions, 8U);
  EXPECT_GT(segments.page_bytes, 0U);
  EXPECT_LT(segments.page_bytes, tiny.parts.session->footprint().PageBytes(40 * 16) * 55 / 100);

  EngineRequest exact = GreedyRequest(Join(document, TinyPrompt(7)), 12);
  exact.quality = Quality::kExact;
  TokenStream stranger = tiny.Submit(exact);
  ExpectAsSolo(kOptions, exact.prompt, ReadAll(&stranger).front());
  EXPECT_EQ(stranger.usage().kv.compressed_tokens, 0);
  tiny.ExpectDrained();
}

TEST(ForgettingSharingTest, SaltsKeepCompressedPrefixesApart) {
  TinyEngine tiny = MakeTinyEngine(kOptions, kLimits);
  const std::vector<TokenId> document = TinyPrompt(320);
  EngineRequest compress = CompressRequest(document);
  compress.tenant_salt = "a";
  tiny.Run(compress);
  EngineRequest other = ForgettingRequest(Join(document, TinyPrompt(5)), 4);
  other.tenant_salt = "b";
  TokenStream stream = tiny.Submit(other);
  ReadAll(&stream);
  EXPECT_EQ(stream.usage().kv.compressed_tokens, 0);
  EXPECT_EQ(stream.usage().cached_tokens, 0);
  tiny.ExpectDrained();
}

TEST(ForgettingSharingTest, WhatCannotBeCompressedForOthersIsTold) {
  TinyEngine tiny = MakeTinyEngine(kOptions, kLimits);
  const auto refusal = [&tiny](EngineRequest request) {
    const Result<TokenStream> stream = tiny.engine->Submit(std::move(request));
    return stream.ok() ? std::string() : stream.status().message();
  };
  EXPECT_THAT(refusal(CompressRequest(TinyPrompt(60))), HasSubstr("fewer than 64 tokens"));
  EngineRequest question = CompressRequest(TinyPrompt(320));
  question.forgetting->policy = "snapkv";
  EXPECT_THAT(refusal(question), HasSubstr("not by: snapkv"));
  EngineRequest nothing = CompressRequest(TinyPrompt(320));
  nothing.forgetting = std::nullopt;
  EXPECT_THAT(refusal(nothing), HasSubstr("not by: none"));
  EngineRequest alone = CompressRequest(TinyPrompt(320));
  alone.share_prefix = false;
  EXPECT_THAT(refusal(alone), HasSubstr("shared"));
}

TEST(ForgettingSharingTest, EqualPromptsAtOneMomentAreCompressedOnce) {
  TinyEngine tiny = MakeTinyEngine(kOptions, kLimits);
  std::latch all_submitted(1);
  std::vector<TokenStream> streams;
  EngineRequest first = GreedyRequest(TinyPrompt(20, 9), 2);
  first.on_ready = [&all_submitted] { all_submitted.wait(); };
  TokenStream gate = tiny.Submit(std::move(first));
  for (int i = 0; i < 6; ++i) streams.push_back(tiny.Submit(ForgettingRequest(TinyPrompt(500), 8)));
  all_submitted.count_down();
  int compactions = 0;
  std::vector<TokenId> tokens;
  for (TokenStream& stream : streams) {
    const TinyReply reply = ReadAll(&stream).front();
    if (tokens.empty()) tokens = reply.tokens;
    EXPECT_EQ(reply.tokens, tokens);
    compactions += stream.usage().kv.compactions;
  }
  EXPECT_EQ(compactions, 1);
  ReadAll(&gate);
  tiny.ExpectDrained();
}

TEST(ForgettingSharingTest, PreemptedRequestsComeBackTheSameWay) {
  for (const bool by_budget : {false, true}) {
    const auto make = [by_budget](int i) {
      EngineRequest request = ForgettingRequest(TinyPrompt(200, i), 300);
      if (by_budget) {
        request.forgetting = Forgetting{.policy = "keydiff:recent=16", .budget = "128tokens"};
      }
      return request;
    };
    TinySessionOptions scarce = kOptions;
    const TinySession shape = MakeTinySession({});
    scarce.cache_bytes = shape.session->footprint().PageBytes(by_budget ? 800 : 900) + (48 << 10);
    TinyEngine tiny = MakeTinyEngine(scarce, kLimits);
    std::latch all_submitted(1);
    std::vector<TokenStream> streams;
    for (int i = 0; i < 6; ++i) {
      EngineRequest request = make(i);
      if (i == 0) request.on_ready = [&all_submitted] { all_submitted.wait(); };
      streams.push_back(tiny.Submit(std::move(request)));
    }
    all_submitted.count_down();
    for (int i = 0; i < 6; ++i) {
      TokenStream& stream = streams[static_cast<std::size_t>(i)];
      const TinyReply reply = ReadAll(&stream).front();
      ASSERT_TRUE(stream.status().ok()) << stream.status().message();
      EXPECT_THAT(reply.tokens, SizeIs(300)) << i;
      TinyEngine ample = MakeTinyEngine(kOptions, kLimits);
      const TinyReply alone = ample.Run(make(i)).front();
      for (std::size_t t = 0; t < alone.tokens.size(); ++t) {
        ASSERT_NEAR(reply.logprobs[t], alone.logprobs[t], 10 * kLogprobBound) << i << " " << t;
        if (reply.tokens[t] != alone.tokens[t]) break;
      }
    }
    tiny.ExpectDrained();
  }
}

TEST(ForgettingSharingTest, ARequestCancelledAnywhereLeavesNothingBehind) {
  TinyEngine tiny = MakeTinyEngine(kOptions, kLimits);
  for (int round = 0; round < 12; ++round) {
    TokenStream stream = tiny.Submit(ForgettingRequest(TinyPrompt(400, round), 50));
    // At once, whatever it is at by then, or after some tokens of the reply.
    TokenEvent event;
    for (int read = 0; round % 2 == 1 && read < round; ++read) stream.Next(&event, kPatience);
    stream.Cancel();
    ReadAll(&stream);
  }
  tiny.ExpectDrained();
}

}  // namespace
}  // namespace swiftkv
