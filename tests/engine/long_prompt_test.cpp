// SPDX-License-Identifier: Apache-2.0
// Tests that a long prompt holds no stream up for longer than a step of its own, and that streams
// hold no prompt up. Steps are counted, not timed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <memory>

#include "engine/tiny_engine.h"

namespace swiftkv {
namespace {

using testing::SizeIs;

// Tokens of replies, counted on the engine's thread.
struct Counts {
  int stream = 0;     // of the stream, so far
  int at_reply = -1;  // of these, before the prompt's first token
  std::latch arrived{1};
};

// A stream runs when a prompt arrives that takes many steps; the engine waits at the stream's third
// token until it has. Returns how many tokens the stream got before the prompt's first.
int TokensMeanwhile(int chunk, int prompt_tokens) {
  TinyEngine tiny = MakeTinyEngine({.context = 1024, .chunk = chunk});
  const auto counts = std::make_shared<Counts>();
  EngineRequest streaming = GreedyRequest(TinyPrompt(8), 900);
  streaming.on_ready = [counts] {
    if (++counts->stream == 3) counts->arrived.wait();
  };
  TokenStream stream = tiny.Submit(std::move(streaming));
  EngineRequest late = GreedyRequest(TinyPrompt(prompt_tokens, 2), 4);
  late.on_ready = [counts] {
    if (counts->at_reply < 0) counts->at_reply = counts->stream;
  };
  TokenStream prompt = tiny.Submit(std::move(late));
  counts->arrived.count_down();
  EXPECT_THAT(ReadAll(&prompt).front().tokens, SizeIs(4));
  stream.Cancel();
  ReadAll(&stream);
  tiny.ExpectDrained();
  return counts->at_reply;
}

TEST(LongPromptTest, AStreamGetsATokenInEveryStepOfALongPrompt) {
  constexpr int kPrompt = 200;
  for (const int chunk : {16, 48}) {
    const int steps = (kPrompt + chunk - 1) / chunk;
    EXPECT_GE(TokensMeanwhile(chunk, kPrompt), steps) << "chunk " << chunk;
  }
}

// Sixteen rows are the least that a prompt gets, however long a step takes.
TEST(LongPromptTest, APromptGetsABlockInEveryStepBesideAStream) {
  constexpr int kPrompt = 200;
  for (const int chunk : {17, 48}) {
    EXPECT_LE(TokensMeanwhile(chunk, kPrompt), 3 + kPrompt / kPageTokens + 2) << "chunk " << chunk;
  }
}

}  // namespace
}  // namespace swiftkv
