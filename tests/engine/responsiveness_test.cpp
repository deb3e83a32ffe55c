// SPDX-License-Identifier: Apache-2.0
// Tests, in steps and not in time, that nobody waits longer than need be.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>

#include "engine/tiny_engine.h"

namespace swiftkv {
namespace {

TEST(ResponsivenessTest, AStreamGetsATokenInEveryStepOfALongPrompt) {
  for (const int chunk : {16, 48}) {
    TinyEngine tiny = MakeTinyEngine({.context = 1024, .chunk = chunk});
    std::latch submitted(1);
    // Written on the engine's thread alone, in the order of its steps.
    std::atomic<int> tokens = 0;
    std::atomic<int> at_first = -1;
    EngineRequest running = GreedyRequest(TinyPrompt(10), 900);
    running.on_ready = [&] {
      ++tokens;
      submitted.wait();
    };
    TokenStream stream = tiny.Submit(std::move(running));
    TokenEvent event;
    ASSERT_EQ(stream.Next(&event, kPatience), StreamOutcome::kEvent);
    EngineRequest prompt = GreedyRequest(TinyPrompt(480, 2), 1);
    prompt.on_ready = [&] {
      int none = -1;
      at_first.compare_exchange_strong(none, tokens);
    };
    TokenStream beside = tiny.Submit(std::move(prompt));
    submitted.count_down();
    ReadAll(&beside);
    EXPECT_GE(at_first - 1, 480 / chunk - 1) << "a token in every step, whatever the order in one";
    stream.Cancel();
    ReadAll(&stream);
    tiny.ExpectDrained();
  }
}

TEST(ResponsivenessTest, WhoTakesTheNextPlaceFollowsWithinAStepOfACancellation) {
  TinyEngine tiny = MakeTinyEngine({.context = 1024}, {.max_sequences = 1});
  std::latch cancelled(1);
  EngineRequest endless = GreedyRequest(TinyPrompt(10), 1000);
  endless.on_ready = [&cancelled] { cancelled.wait(); };
  TokenStream gone = tiny.Submit(std::move(endless));
  TokenStream next = tiny.Submit(GreedyRequest(TinyPrompt(5, 2), 3));
  TokenEvent event;
  ASSERT_EQ(gone.Next(&event, kPatience), StreamOutcome::kEvent);
  gone.Cancel();
  cancelled.count_down();
  EXPECT_EQ(ReadAll(&gone).front().finish, FinishReason::kCancelled);
  EXPECT_EQ(ReadAll(&next).front().tokens.size(), 3U);
  tiny.ExpectDrained();
  EXPECT_EQ(tiny.engine->Snapshot().steps, 1U + 3U) << "one that was under way, three of its own";
}

}  // namespace
}  // namespace swiftkv
