// SPDX-License-Identifier: Apache-2.0
// Tests that memory which others used before, or filled with rubbish, never shows in a reply.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "engine/tiny_engine.h"

namespace swiftkv {
namespace {

using testing::SizeIs;

// What lossy pages, stored in other chunks, may change of a log-probability.
constexpr float kLossyBound = 0.02F;

TEST(ReusedMemoryTest, PromptsThatShareTheirFirstBlockAndTheirLengthAreToldApart) {
  const TinySessionOptions options = {.cache_bytes = 256 << 10};
  TinyEngine tiny = MakeTinyEngine(options);
  for (int variant = 0; variant < 10; ++variant) {
    const std::vector<TokenId> first = TinyPrompt(16, variant);
    tiny.Run(GreedyRequest(Join(first, TinyPrompt(64, variant + 1)), 4));
    for (int i = 0; i < 3; ++i) tiny.Run(GreedyRequest(TinyPrompt(150, 50 + 3 * variant + i), 2));
    const std::vector<TokenId> second = Join(first, TinyPrompt(64, variant + 2));
    ExpectAsSolo({}, second, tiny.Run(GreedyRequest(second, 8)).front());
  }
  EXPECT_GT(tiny.engine->Snapshot().prefixes.evicted_blocks, 0U);
  tiny.ExpectDrained();
}

TEST(ReusedMemoryTest, PrefillsThatWereGivenUpLeaveRoomForAPromptOfMostOfThePool) {
  TinySessionOptions options = {.context = 1024, .chunk = 32};
  options.cache_bytes = MakeTinySession(options).session->footprint().PageBytes(400) + (48 << 10);
  TinyEngine tiny = MakeTinyEngine(options);
  for (int round = 0; round < 10; ++round) {
    std::vector<TokenStream> streams;
    for (int i = 0; i < 4; ++i) {
      streams.push_back(tiny.Submit(GreedyRequest(TinyPrompt(320, 4 * round + i), 4)));
    }
    const std::uint64_t enough = tiny.engine->Snapshot().steps + static_cast<unsigned>(round);
    const auto goes_on = [&] {
      const EngineSnapshot now = tiny.engine->Snapshot();
      return now.steps < enough && now.finished_requests < static_cast<unsigned>(4 * round + 4);
    };
    while (goes_on()) std::this_thread::yield();
    for (TokenStream& stream : streams) stream.Cancel();
    for (TokenStream& stream : streams) ReadAll(&stream);
  }
  const std::vector<TokenId> most = TinyPrompt(360, 99);
  ExpectAsSolo({.context = 1024}, most, tiny.Run(GreedyRequest(most, 3)).front());
  tiny.ExpectDrained();
}

class ReusedPagesTest : public ::testing::TestWithParam<KvFormat> {
 protected:
  EngineRequest Request(int tokens, int seed) const {
    EngineRequest request = GreedyRequest(Join(TinyPrompt(32), TinyPrompt(tokens - 32, seed)), 10);
    request.format = GetParam();
    return request;
  }
};

// Equal, or different from where two tokens were about as likely.
void ExpectTheSame(const TinyReply& reply, const TinyReply& expected) {
  ASSERT_EQ(reply.tokens.size(), expected.tokens.size());
  ASSERT_THAT(reply.logprobs, SizeIs(reply.tokens.size()));
  for (std::size_t i = 0; i < reply.tokens.size(); ++i) {
    ASSERT_TRUE(std::isfinite(reply.logprobs[i])) << i;
    ASSERT_NEAR(reply.logprobs[i], expected.logprobs[i], kLossyBound) << i;
    if (reply.tokens[i] != expected.tokens[i]) return;
  }
}

// Free frames are poisoned with bytes that are NaN in every format that has them.
TEST_P(ReusedPagesTest, BlocksWithOneTokenInRubbishReplyAsInFreshMemory) {
  const EngineLimits limits = {.ceiling = Quality::kAny};
  std::vector<TinyReply> expected;
  for (int i = 0; i < 5; ++i) {
    expected.push_back(MakeTinyEngine({}, limits).Run(Request(49 + 16 * i, i)).front());
  }
  TinyEngine tiny = MakeTinyEngine({.chunk = 24, .cache_bytes = 192 << 10}, limits);
  for (int round = 0; round < 3; ++round) {
    std::vector<TokenStream> streams;
    for (int i = 0; i < 5; ++i) streams.push_back(tiny.Submit(Request(49 + 16 * i, i)));
    for (std::size_t i = 0; i < 5; ++i) {
      ExpectTheSame(ReadAll(&streams[i]).front(), expected[i]);
      if (HasFailure()) FAIL() << "request " << i << " of round " << round;
    }
    for (int i = 0; i < 3; ++i) tiny.Run(Request(150, 10 + 3 * round + i));
  }
  EXPECT_GT(tiny.engine->Snapshot().cached_tokens, 0U);
  tiny.ExpectDrained();
}

INSTANTIATE_TEST_SUITE_P(, ReusedPagesTest,
                         ::testing::Values(KvFormat{"f16", "f16"}, KvFormat{"bf16", "bf16"},
                                           KvFormat{"fp8_e4m3", "fp8_e4m3"},
                                           KvFormat{"fp8_e5m2", "fp8_e5m2"},
                                           KvFormat{"int8", "int8"}, KvFormat{"int8", "int4"}),
                         [](const auto& format) {
                           return format.param.key + "_" + format.param.value;
                         });

}  // namespace
}  // namespace swiftkv
