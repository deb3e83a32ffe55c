// SPDX-License-Identifier: Apache-2.0
// Tests requests that get their place together with all slots that they may need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/tiny_engine.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr int kContext = 256;

// What so many sequences of so many slots take, whatever describes them included.
std::uint64_t BytesOf(int sequences, int slots) {
  const TinySession tiny = MakeTinySession({.context = kContext});
  for (int i = 0; i < sequences; ++i) {
    const SequenceId sequence = tiny.cache->CreateSequence().value();
    EXPECT_TRUE(tiny.cache->Reserve(sequence, slots).ok());
  }
  return tiny.cache->Balance().mapped_bytes;
}

// Submits ten requests of 40 + 50 tokens and checks that `places` of them run together, the others
// after them, and that all reply as they would alone. Nobody reads until then, so that those who
// run wait for their readers after two tokens.
void ExpectPlaces(SlotReservation reservation, std::uint64_t bytes, std::size_t places) {
  const TinySessionOptions options = {.context = kContext, .chunk = 64, .cache_bytes = bytes};
  TinyEngine tiny = MakeTinyEngine(options, {.reservation = reservation});
  std::vector<TokenStream> streams;
  for (int i = 0; i < 10; ++i) {
    EngineRequest request = GreedyRequest(TinyPrompt(40, i), 50);
    request.buffered_events = 2;
    streams.push_back(tiny.Submit(request));
  }
  while (tiny.engine->Snapshot().generated_tokens < 2 * places) std::this_thread::yield();
  EXPECT_EQ(tiny.engine->Snapshot().running, static_cast<int>(places));
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const TinyReply reply = ReadAll(&streams[i]).front();
    EXPECT_TRUE(streams[i].status().ok()) << streams[i].status().message();
    EXPECT_THAT(reply.tokens, SizeIs(50));
    EXPECT_EQ(streams[i].usage().preemptions, 0);
    ExpectAsSolo({.context = kContext}, TinyPrompt(40, static_cast<int>(i)), reply);
  }
  tiny.ExpectDrained();
}

TEST(ReservationTest, AsManyRunAsHaveAllTheirSlots) {
  const std::uint64_t bytes = BytesOf(2, kContext);
  ExpectPlaces(SlotReservation::kContext, bytes, 2);
  ExpectPlaces(SlotReservation::kPowerOfTwo, bytes, 4);  // 90 slots are 128
  ExpectPlaces(SlotReservation::kExact, bytes, 5);       // 90 slots are six blocks
}

TEST(ReservationTest, AReplyWithoutALimitReservesAContext) {
  TinyEngine tiny = MakeTinyEngine({.context = kContext, .cache_bytes = BytesOf(1, kContext)},
                                   {.reservation = SlotReservation::kExact});
  TokenStream first = tiny.Submit(GreedyRequest(TinyPrompt(20), -1));
  TokenStream second = tiny.Submit(GreedyRequest(TinyPrompt(20, 2), -1));
  EXPECT_THAT(ReadAll(&first).front().tokens, SizeIs(kContext - 20));
  EXPECT_THAT(ReadAll(&second).front().tokens, SizeIs(kContext - 20));
  EXPECT_GE(second.usage().queue_seconds, first.usage().first_token_seconds);
  tiny.ExpectDrained();
}

TEST(ReservationTest, NobodyTakesAReservedPlaceWhateverThePriority) {
  TinyEngine tiny = MakeTinyEngine({.context = kContext, .cache_bytes = BytesOf(1, kContext)},
                                   {.reservation = SlotReservation::kContext});
  EngineRequest slow = GreedyRequest(TinyPrompt(30), 20);
  slow.buffered_events = 1;
  TokenStream first = tiny.Submit(slow);
  TokenEvent event;
  ASSERT_EQ(first.Next(&event, kPatience), StreamOutcome::kEvent);
  EngineRequest urgent = GreedyRequest(TinyPrompt(30, 2), 5);
  urgent.priority = 1;
  TokenStream second = tiny.Submit(urgent);
  EXPECT_THAT(ReadAll(&first).front().tokens, SizeIs(19));
  EXPECT_EQ(first.usage().preemptions, 0);
  EXPECT_THAT(ReadAll(&second).front().tokens, SizeIs(5));
  tiny.ExpectDrained();
}

TEST(ReservationTest, WhatCanNeverBeReservedIsRefusedAtOnce) {
  TinyEngine tiny = MakeTinyEngine({.context = kContext, .cache_bytes = BytesOf(1, kContext) / 2},
                                   {.reservation = SlotReservation::kExact});
  const Status big = tiny.engine->Submit(GreedyRequest(TinyPrompt(100), 100)).status();
  EXPECT_EQ(big.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(big.message(), HasSubstr("200 slots"));
  EngineRequest two = GreedyRequest(TinyPrompt(10), 10);
  two.choices = 2;
  EXPECT_EQ(tiny.engine->Submit(two).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(tiny.Run(GreedyRequest(TinyPrompt(10), 10)).front().tokens, SizeIs(10));
  tiny.ExpectDrained();
}

TEST(ReservationTest, SlidingWindowsReserveEverySlotAndReplyAsAlone) {
  TinySessionOptions options = {
      .family = TinyFamily::kGemma3, .context = kContext, .chunk = 32, .window = 32};
  TinyEngine tiny = MakeTinyEngine(options, {.reservation = SlotReservation::kContext});
  std::vector<TokenStream> streams;
  for (int i = 0; i < 4; ++i) {
    streams.push_back(tiny.Submit(GreedyRequest(TinyPrompt(40, i), 90)));
  }
  for (int i = 0; i < 4; ++i) {
    const TinyReply reply = ReadAll(&streams[static_cast<std::size_t>(i)]).front();
    ExpectAsSolo(options, TinyPrompt(40, i), reply);
  }
  tiny.ExpectDrained();
}

}  // namespace
}  // namespace swiftkv
