// SPDX-License-Identifier: Apache-2.0
// Tests the engine under random traffic from several threads: requests of all shapes, choices,
// cancellations, slow readers and a pool too small for them.
//
// Whatever happens, a finished reply is what a solo run gives, every choice ends once, and in the
// end nothing is left behind. Pages are poisoned, so a block that was found before it was written,
// or freed too early, would show in the replies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "engine/tiny_engine.h"

namespace swiftkv {
namespace {

constexpr int kDocuments = 3;
constexpr int kTraffic = 3;  // threads that submit
constexpr int kRequestsOfThread = 14;

struct Traffic {
  TinyEngine* tiny;
  TinySessionOptions options;
  std::mt19937 random;

  int Draw(int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); }

  // One of a few documents, cut anywhere, with a tail of its own.
  std::vector<TokenId> Prompt() {
    std::vector<TokenId> prompt = TinyPrompt(20 + Draw(80), Draw(kDocuments - 1));
    return Join(std::move(prompt), TinyPrompt(1 + Draw(20), Draw(1000)));
  }

  EngineRequest Request() {
    EngineRequest request = GreedyRequest(Prompt(), Draw(40));
    request.priority = Draw(3) == 0 ? Draw(2) - 1 : 0;
    request.share_prefix = Draw(4) > 0;
    request.buffered_events = Draw(2) == 0 ? 1 + Draw(4) : 0;
    if (Draw(3) > 0) return request;
    request.choices = 2 + Draw(2);
    request.sampling.temperature = 1;
    request.sampling.seed = random();
    return request;
  }

  void Check(const EngineRequest& request, const std::vector<TinyReply>& replies) {
    for (const TinyReply& reply : replies) {
      EXPECT_EQ(reply.ends, 1);
      EXPECT_EQ(reply.finish, FinishReason::kLength);
      EXPECT_EQ(reply.tokens.size(), static_cast<std::size_t>(request.max_tokens));
    }
    if (request.choices == 1 && Draw(2) == 0) ExpectAsSolo(options, request.prompt, replies[0]);
  }

  void Run() {
    for (int i = 0; i < kRequestsOfThread; ++i) {
      const EngineRequest request = Request();
      TokenStream stream = tiny->Submit(request);
      TokenEvent event;
      const int fate = Draw(9);
      if (fate == 0) continue;  // let go at once
      if (fate == 1) {
        for (int read = Draw(5); read > 0; --read) stream.Next(&event, std::chrono::seconds(1));
        stream.Cancel();
        stream.Cancel();
        while (stream.Next(&event, kPatience) == StreamOutcome::kEvent) continue;
        continue;
      }
      Check(request, ReadAll(&stream, request.choices));
      EXPECT_TRUE(stream.status().ok()) << stream.status().message();
    }
  }
};

void RunTraffic(const TinySessionOptions& options, const EngineLimits& limits, unsigned seed) {
  TinyEngine tiny = MakeTinyEngine(options, limits);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kTraffic; ++i) {
    threads.emplace_back([&, i] {
      Traffic{
          &tiny, {.family = options.family, .window = options.window}, std::mt19937(seed * 100 + i)}
          .Run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  tiny.ExpectDrained();
  EXPECT_EQ(tiny.engine->Snapshot().finished_requests,
            static_cast<std::uint64_t>(kTraffic * kRequestsOfThread));
}

TEST(EnginePropertyTest, RandomTrafficInAmpleMemoryEndsRight) {
  for (const unsigned seed : {1U, 2U}) RunTraffic({.chunk = 48}, {.max_sequences = 8}, seed);
}

TEST(EnginePropertyTest, RandomTrafficInScarceMemoryEndsRight) {
  for (const unsigned seed : {3U, 4U, 5U, 6U}) {
    RunTraffic({.chunk = 24, .cache_bytes = 256 << 10}, {.max_sequences = 6}, seed);
  }
}

TEST(EnginePropertyTest, RandomTrafficOverWindowsEndsRight) {
  const TinySessionOptions options = {
      .family = TinyFamily::kGemma3, .chunk = 24, .window = 32, .cache_bytes = 640 << 10};
  for (const unsigned seed : {7U, 8U}) RunTraffic(options, {.max_sequences = 5}, seed);
}

}  // namespace
}  // namespace swiftkv
