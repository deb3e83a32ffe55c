// SPDX-License-Identifier: Apache-2.0
// Tests that memory running short costs time and nothing else: nobody fails, nothing is lost or
// told twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <utility>

#include "engine/tiny_engine.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// Of memory that holds about so many tokens of the tiny model, whatever describes them included.
std::uint64_t BytesFor(std::int64_t tokens) {
  const TinySession tiny = MakeTinySession({});
  return tiny.session->footprint().PageBytes(tokens) + (48 << 10);
}

TEST(PreemptionTest, ManyRepliesInMemoryForOneAndAHalfAllEndAsTheyWouldAlone) {
  const TinySessionOptions options = {
      .context = 512, .chunk = 32, .cache_bytes = BytesFor(3 * (20 + 200) / 2)};
  TinyEngine tiny = MakeTinyEngine(options);
  constexpr int kRequests = 8;
  std::vector<TokenStream> streams;
  for (int i = 0; i < kRequests; ++i) {
    streams.push_back(tiny.Submit(GreedyRequest(TinyPrompt(20, i), 200)));
  }
  int preemptions = 0;
  for (int i = 0; i < kRequests; ++i) {
    TokenStream& stream = streams[static_cast<std::size_t>(i)];
    const TinyReply reply = ReadAll(&stream).front();
    ASSERT_TRUE(stream.status().ok()) << stream.status().message();
    EXPECT_THAT(reply.tokens, SizeIs(200));
    EXPECT_EQ(reply.limit, LengthLimit::kMaxTokens);
    ExpectAsSolo({.context = 512}, TinyPrompt(20, i), reply);
    EXPECT_LE(stream.usage().preemptions, i) << "at most once for each that ends before it";
    preemptions += stream.usage().preemptions;
  }
  EXPECT_GT(preemptions, 0);
  while (tiny.engine->Snapshot().finished_requests < kRequests) std::this_thread::yield();
  EXPECT_EQ(tiny.engine->Snapshot().preemptions, static_cast<std::uint64_t>(preemptions));
  tiny.ExpectDrained();
}

TEST(PreemptionTest, SlidingWindowsComeBackToo) {
  TinySessionOptions options = {
      .family = TinyFamily::kGemma3, .context = 512, .chunk = 32, .window = 32};
  const TinySession shape = MakeTinySession(options);
  options.cache_bytes = 2 * shape.session->footprint().PageBytes(200) + (80 << 10);
  // The engine waits at the first token until all requests are there, so that they grow together.
  std::latch all_submitted(1);
  TinyEngine tiny = MakeTinyEngine(options);
  std::vector<TokenStream> streams;
  for (int i = 0; i < 5; ++i) {
    EngineRequest request = GreedyRequest(TinyPrompt(40, i), 250);
    if (i == 0) request.on_ready = [&all_submitted] { all_submitted.wait(); };
    streams.push_back(tiny.Submit(std::move(request)));
  }
  all_submitted.count_down();
  int preemptions = 0;
  for (int i = 0; i < 5; ++i) {
    TokenStream& stream = streams[static_cast<std::size_t>(i)];
    const TinyReply reply = ReadAll(&stream).front();
    EXPECT_THAT(reply.tokens, SizeIs(250));
    ExpectAsSolo({.family = TinyFamily::kGemma3, .context = 512, .window = 32}, TinyPrompt(40, i),
                 reply);
    preemptions += stream.usage().preemptions;
  }
  EXPECT_GT(preemptions, 0);
  tiny.ExpectDrained();
}

TEST(PreemptionTest, SeededChoicesAreThoseOfAmpleMemory) {
  EngineRequest request;
  request.prompt = TinyPrompt(3 * 16 + 2);
  request.sampling.temperature = 1;
  request.sampling.seed = 3;
  request.sampling.ignore_eos = true;
  request.max_tokens = 90;
  request.choices = 4;
  const std::vector<TinyReply> ample = MakeTinyEngine({}).Run(request);
  TinyEngine tiny = MakeTinyEngine({.cache_bytes = BytesFor(200)});
  TokenStream stream = tiny.Submit(request);
  const std::vector<TinyReply> scarce = ReadAll(&stream, 4);
  EXPECT_GT(stream.usage().preemptions, 0);
  EXPECT_EQ(stream.usage().completion_tokens, 4 * 90);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(scarce[i].ends, 1);
    EXPECT_EQ(scarce[i].tokens, ample[i].tokens) << i;
    EXPECT_EQ(scarce[i].text, ample[i].text) << i;
  }
  tiny.ExpectDrained();
}

TEST(PreemptionTest, PenaltiesSeePromptAndReplyAsBefore) {
  EngineRequest request = GreedyRequest(TinyPrompt(40), 100);
  request.sampling.repeat_penalty = 1.3F;
  request.sampling.frequency_penalty = 1;
  request.sampling.presence_penalty = 1;
  const std::vector<TokenId> alone = MakeTinyEngine({}).Run(request).front().tokens;
  TinyEngine tiny = MakeTinyEngine({.cache_bytes = BytesFor(210)});
  // The engine waits at the first token until both are there, so that they grow together.
  std::latch all_submitted(1);
  EngineRequest rival = GreedyRequest(TinyPrompt(30, 2), 120);
  rival.on_ready = [&all_submitted] { all_submitted.wait(); };
  TokenStream first = tiny.Submit(std::move(rival));
  TokenStream second = tiny.Submit(request);
  all_submitted.count_down();
  EXPECT_EQ(ReadAll(&second).front().tokens, alone);
  EXPECT_GT(second.usage().preemptions, 0);
  EXPECT_THAT(ReadAll(&first).front().tokens, SizeIs(120));
}

TEST(PreemptionTest, WhoGoesFirstIsNeverPreemptedAndPriorityGoesFirst) {
  TinyEngine tiny = MakeTinyEngine({.context = 512, .cache_bytes = BytesFor(330)});
  std::vector<TokenStream> streams;
  for (int i = 0; i < 4; ++i) {
    EngineRequest request = GreedyRequest(TinyPrompt(20, i), 200);
    request.priority = i == 2 ? 1 : 0;
    streams.push_back(tiny.Submit(request));
  }
  for (TokenStream& stream : streams) EXPECT_THAT(ReadAll(&stream).front().tokens, SizeIs(200));
  EXPECT_EQ(streams[2].usage().preemptions, 0);
  EXPECT_GT(streams[3].usage().preemptions, 0);
  tiny.ExpectDrained();
}

TEST(PreemptionTest, AReplyThatOutgrowsTheWholePoolAloneEndsWithLength) {
  TinyEngine tiny = MakeTinyEngine({.context = 1024, .cache_bytes = BytesFor(150)});
  TokenStream big = tiny.Submit(GreedyRequest(TinyPrompt(40), -1));
  TokenStream small = tiny.Submit(GreedyRequest(TinyPrompt(20, 2), 30));
  const TinyReply reply = ReadAll(&big).front();
  EXPECT_EQ(reply.finish, FinishReason::kLength);
  EXPECT_EQ(reply.limit, LengthLimit::kMemory);
  EXPECT_GT(reply.tokens.size(), 80U);
  EXPECT_THAT(ReadAll(&small).front().tokens, SizeIs(30));
  tiny.ExpectDrained();
}

// Around the largest prompt that fits: what is refused is refused by name, and nobody behind waits
// for ever.
TEST(PreemptionTest, PromptsAtTheEdgeOfThePoolAreServedOrRefusedAndNobodyHangs) {
  TinyEngine tiny = MakeTinyEngine({.context = 1024, .cache_bytes = BytesFor(160)});
  int served = 0;
  int refused = 0;
  for (int length = 140; length < 300; length += 7) {
    Result<TokenStream> big = tiny.engine->Submit(GreedyRequest(TinyPrompt(length, length), 1));
    TokenStream small = tiny.Submit(GreedyRequest(TinyPrompt(5), 3));
    EXPECT_THAT(ReadAll(&small).front().tokens, SizeIs(3)) << length;
    Status status = big.status();
    if (big.ok()) {
      ReadAll(&*big);
      status = big->status();
    }
    served += status.ok() ? 1 : 0;
    if (status.ok()) continue;
    ++refused;
    // What the pages alone rule out is told at once; what metadata rules out shows later.
    EXPECT_EQ(status.code(),
              big.ok() ? StatusCode::kResourceExhausted : StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("the limit is"));
  }
  EXPECT_GT(served, 2);
  EXPECT_GT(refused, 10);
  tiny.ExpectDrained();
}

TEST(PreemptionTest, APausedReaderDoesNotHoldThePool) {
  TinyEngine tiny = MakeTinyEngine({.context = 512, .cache_bytes = BytesFor(150)});
  EngineRequest request = GreedyRequest(TinyPrompt(100), 30);
  request.buffered_events = 2;
  TokenStream slow = tiny.Submit(request);
  EXPECT_THAT(tiny.Run(GreedyRequest(TinyPrompt(100, 2), 20)).front().tokens, SizeIs(20));
  const TinyReply reply = ReadAll(&slow).front();
  EXPECT_THAT(reply.tokens, SizeIs(30));
  ExpectAsSolo({.context = 512}, TinyPrompt(100), reply);
  tiny.ExpectDrained();
}

}  // namespace
}  // namespace swiftkv
