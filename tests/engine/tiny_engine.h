// SPDX-License-Identifier: Apache-2.0
// Gives tests an engine over a tiny model, and what its replies are compared with.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine_thread.h"
#include "engine/tiny_session.h"
#include "model/logprobs.h"

namespace swiftkv {

// Far beyond what any test needs, so that one that hangs fails.
inline constexpr std::chrono::milliseconds kPatience{120'000};

// What came of one choice.
struct TinyReply {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;  // where asked for
  std::string text;
  std::optional<FinishReason> finish;
  LengthLimit limit = LengthLimit::kNone;
  int ends = 0;  // events that said so
};

// Reads a stream to its end; one reply for each choice.
inline std::vector<TinyReply> ReadAll(TokenStream* stream, int choices = 1) {
  std::vector<TinyReply> replies(static_cast<std::size_t>(choices));
  TokenEvent event;
  StreamOutcome outcome = StreamOutcome::kTimeout;
  while ((outcome = stream->Next(&event, kPatience)) == StreamOutcome::kEvent) {
    TinyReply& reply = replies.at(static_cast<std::size_t>(event.choice));
    EXPECT_EQ(reply.ends, 0) << "nothing follows the end";
    if (event.token != kNoToken) reply.tokens.push_back(event.token);
    if (event.logprob) reply.logprobs.push_back(event.logprob->logprob);
    reply.text += event.text;
    if (!event.finish) continue;
    reply.finish = event.finish;
    reply.limit = event.limit;
    ++reply.ends;
  }
  EXPECT_EQ(outcome, StreamOutcome::kEnd);
  return replies;
}

// A greedy request that ends by its length.
inline EngineRequest GreedyRequest(std::vector<TokenId> prompt, int max_tokens) {
  EngineRequest request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  request.max_tokens = max_tokens;
  request.logprobs = 0;
  request.buffered_events = 0;
  return request;
}

struct TinyEngine {
  TinySession parts;  // its session is not used
  std::unique_ptr<EngineThread> engine;

  TokenStream Submit(EngineRequest request) {
    Result<TokenStream> stream = engine->Submit(std::move(request));
    EXPECT_TRUE(stream.ok()) << stream.status().message();
    return stream.ok() ? std::move(stream).value() : TokenStream();
  }

  std::vector<TinyReply> Run(EngineRequest request) {
    const int choices = request.choices;
    TokenStream stream = Submit(std::move(request));
    std::vector<TinyReply> replies = ReadAll(&stream, choices);
    EXPECT_TRUE(stream.status().ok()) << stream.status().message();
    return replies;
  }

  // Ends the engine and checks that it left nothing behind.
  void ExpectDrained() {
    EXPECT_TRUE(engine->Drain(kPatience));
    engine->Shutdown();
    const EngineSnapshot snapshot = engine->Snapshot();
    EXPECT_EQ(snapshot.running, 0);
    EXPECT_EQ(snapshot.waiting, 0);
    EXPECT_EQ(snapshot.balance.live_private_bytes, 0U);
    EXPECT_EQ(snapshot.balance.live_shared_bytes, 0U);
    EXPECT_EQ(snapshot.balance.live_tokens, 0U);
    EXPECT_LE(snapshot.balance.peak_bytes, snapshot.balance.limit_bytes);
    parts.cache->CheckInvariants();
  }
};

inline TinyEngine MakeTinyEngine(const TinySessionOptions& options, const EngineLimits& limits = {},
                                 std::shared_ptr<const ModelQueryFigures> figures = nullptr) {
  TinyEngine made;
  made.parts = MakeTinySession(options);
  const EngineParts parts = {.model = made.parts.model.get(),
                             .vocabulary = made.parts.vocabulary.get(),
                             .cache = made.parts.cache.get(),
                             .format = {.key = "f32", .value = "f32"},
                             .figures = std::move(figures)};
  made.engine = EngineThread::Start(parts, limits).value();
  return made;
}

// What rounding may change of a log-probability, in another batch and other chunks.
inline constexpr float kLogprobBound = 1e-3F;

// The log-probability of the most likely token that does not end a reply.
inline float BestLogprob(const Vocabulary& vocabulary, std::span<const float> logits) {
  for (const TokenLogprob& best : TopLogprobs(logits, 16)) {
    if (!vocabulary.IsEndOfGeneration(best.token)) return best.logprob;
  }
  return 0;
}

// Compares a greedy reply with a solo run that is given the same tokens: its log-probabilities, and
// that no other token was better there.
inline void ExpectAsSolo(const TinySessionOptions& options, const std::vector<TokenId>& prompt,
                         const TinyReply& reply) {
  const TinySession solo = MakeTinySession(options);
  Executor executor(solo.model.get(), solo.cache.get());
  const SequenceId sequence = solo.cache->CreateSequence().value();
  const auto vocabulary = static_cast<std::size_t>(solo.vocabulary->size());
  const std::vector<TokenId> all = Join(prompt, reply.tokens);
  ASSERT_EQ(reply.logprobs.size(), reply.tokens.size());
  const auto most = static_cast<std::size_t>(solo.model->max_batch_rows());
  for (std::size_t at = 0; at + 1 < all.size();) {
    const std::size_t rows = std::min(most, all.size() - 1 - at);
    StepPlan plan;
    plan.tokens.assign(all.begin() + static_cast<std::ptrdiff_t>(at),
                       all.begin() + static_cast<std::ptrdiff_t>(at + rows));
    PlannedSlice slice;
    slice.rows = {.sequence = sequence,
                  .first_position = static_cast<std::int64_t>(at),
                  .num_rows = static_cast<int>(rows),
                  .num_outputs = static_cast<int>(rows)};
    plan.slices.push_back(slice);
    const std::span<const float> logits = executor.Execute(plan, nullptr).value();
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t next = at + row + 1;
      if (next < prompt.size()) continue;
      const std::span<const float> own = logits.subspan(row * vocabulary, vocabulary);
      const float forced = LogprobOf(own, all[next]).logprob;
      ASSERT_NEAR(reply.logprobs[next - prompt.size()], forced, kLogprobBound) << "token " << next;
      ASSERT_GE(forced + kLogprobBound, BestLogprob(*solo.vocabulary, own)) << "token " << next;
    }
    at += rows;
  }
}

}  // namespace swiftkv
