// SPDX-License-Identifier: Apache-2.0
// Tests what the engine counts and measures, whatever becomes of its requests.
#include "engine/engine_statistics.h"

#include <gmock/gmock.h>

#include <latch>
#include <numeric>
#include <utility>

#include "engine/tiny_engine.h"

namespace swiftkv {
namespace {

using testing::ElementsAre;

std::uint64_t EndedChoices(const EngineStatistics& statistics) {
  return std::accumulate(statistics.ended_choices.begin(), statistics.ended_choices.end(),
                         std::uint64_t{0});
}

std::uint64_t Ended(const EngineStatistics& statistics, ChoiceEnd end) {
  return statistics.ended_choices[static_cast<std::size_t>(end)];
}

// Ends the engine and returns its last word.
EngineReport LastReport(TinyEngine* tiny) {
  tiny->ExpectDrained();
  return tiny->engine->Report();
}

// What holds whatever has happened, once nothing runs.
void ExpectConsistent(const EngineReport& report) {
  const EngineStatistics& s = report.statistics;
  EXPECT_EQ(s.first_token_seconds.count() + s.token_gap_seconds.count(),
            report.snapshot.generated_tokens)
      << "every token is a first one or follows one, preempted or not";
  const std::uint64_t whole = Ended(s, ChoiceEnd::kStop) + Ended(s, ChoiceEnd::kLength);
  for (const Histogram* histogram : {&s.total_seconds, &s.queue_seconds, &s.prompt_tokens,
                                     &s.computed_prompt_tokens, &s.generated_tokens}) {
    EXPECT_EQ(histogram->count(), whole);
  }
  EXPECT_EQ(s.prefill_seconds.count(), s.decode_seconds.count());
  EXPECT_EQ(s.prefill_seconds.count(), s.inference_seconds.count());
  EXPECT_NEAR(s.inference_seconds.sum, s.prefill_seconds.sum + s.decode_seconds.sum, 1e-9);
  EXPECT_GE(s.total_seconds.sum, s.queue_seconds.sum);
  EXPECT_LE(s.prefix_hit_tokens, s.prefix_queried_tokens);
  for (const FormatUse& use : s.formats) {
    EXPECT_EQ(use.sequences + use.tokens + use.bytes + use.f16_bytes, 0U) << use.format.key;
  }
  EXPECT_EQ(s.unfilled_bytes, 0U);
  EXPECT_EQ(s.paused, 0);
}

TEST(EngineStatisticsTest, BucketsHoldTheirUpperBoundAndTheLastWhatIsBeyond) {
  static constexpr double kBounds[] = {1, 10, 100};
  Histogram histogram{.bounds = kBounds};
  for (const double value : {0.0, 1.0, 1.5, 10.0, 100.0, 100.5, 1e9}) histogram.Observe(value);
  EXPECT_THAT(std::span(histogram.counts).first(4), ElementsAre(2, 2, 1, 2));
  EXPECT_EQ(histogram.count(), 7U);
  EXPECT_DOUBLE_EQ(histogram.sum, 0 + 1 + 1.5 + 10 + 100 + 100.5 + 1e9);
}

TEST(EngineStatisticsTest, LengthsAreCountedUpToTheContext) {
  EXPECT_THAT(EngineStatistics(256).prompt_tokens.bounds,
              ElementsAre(1, 2, 5, 10, 20, 50, 100, 200));
  EXPECT_EQ(EngineStatistics(1).generated_tokens.bounds.size(), 1U);
  EXPECT_EQ(EngineStatistics(1 << 30).generated_tokens.bounds.back(), 1e6);
}

TEST(EngineStatisticsTest, CountsWhatRequestsAskedForAndGot) {
  TinyEngine tiny = MakeTinyEngine({});
  tiny.Run(GreedyRequest(TinyPrompt(30), 7));
  EngineRequest four = GreedyRequest(TinyPrompt(60, 2), 11);
  four.choices = 4;
  four.share_prefix = false;
  tiny.Run(four);
  tiny.Run(GreedyRequest(TinyPrompt(10, 3), 0));
  const EngineReport report = LastReport(&tiny);
  ExpectConsistent(report);
  const EngineStatistics& s = report.statistics;
  EXPECT_THAT(s.ended_choices, ElementsAre(0, 6, 0, 0));
  EXPECT_DOUBLE_EQ(s.prompt_tokens.sum, 30 + 4 * 60 + 10);
  EXPECT_DOUBLE_EQ(s.generated_tokens.sum, 7 + 4 * 11);
  EXPECT_DOUBLE_EQ(s.asked_tokens.sum, 7 + 4 * 11);
  EXPECT_DOUBLE_EQ(s.longest_tokens.sum, 7 + 11);
  EXPECT_EQ(s.longest_tokens.count(), 3U);
  EXPECT_EQ(s.first_token_seconds.count(), 5U);
  EXPECT_EQ(s.seconds_per_token.count(), 5U);
  EXPECT_EQ(s.prefill_seconds.count(), 5U) << "no token, no prefill";
  EXPECT_THAT(std::span(s.choices.counts).first(3), ElementsAre(2, 0, 1));
  EXPECT_EQ(s.prefix_queried_tokens, 30U + 10U) << "one does not share";
  EXPECT_DOUBLE_EQ(s.step_tokens.sum, 30 + 6 + 60 + 4 * 10 + 10);
  EXPECT_EQ(s.step_tokens.count(), report.snapshot.steps);
}

TEST(EngineStatisticsTest, TellsAnEndTokenFromALimit) {
  TinyEngine tiny = MakeTinyEngine({});
  EngineRequest request;
  request.prompt = TinyPrompt(10);
  request.sampling.logit_bias = {
      {.token = tiny.parts.vocabulary->end_of_generation_tokens().front(), .bias = 100}};
  tiny.Run(request);
  const EngineReport report = LastReport(&tiny);
  ExpectConsistent(report);
  EXPECT_THAT(report.statistics.ended_choices, ElementsAre(1, 0, 0, 0));
  EXPECT_EQ(report.statistics.asked_tokens.count(), 0U) << "no cap was given";
}

TEST(EngineStatisticsTest, WithdrawnChoicesAreCountedAndMeasuredNoFurther) {
  TinyEngine tiny = MakeTinyEngine({.context = 1024}, {.max_sequences = 2});
  EngineRequest two = GreedyRequest(TinyPrompt(20), -1);
  two.choices = 2;
  TokenStream running = tiny.Submit(two);
  TokenStream waiting = tiny.Submit(GreedyRequest(TinyPrompt(20, 2), 5));
  TokenEvent event;
  for (int i = 0; i < 6; ++i) ASSERT_EQ(running.Next(&event, kPatience), StreamOutcome::kEvent);
  waiting.Cancel();
  ReadAll(&waiting);
  running.Cancel();
  while (running.Next(&event, kPatience) == StreamOutcome::kEvent) {
  }
  const EngineReport report = LastReport(&tiny);
  ExpectConsistent(report);
  EXPECT_THAT(report.statistics.ended_choices, ElementsAre(0, 0, 3, 0));
  EXPECT_EQ(report.statistics.first_token_seconds.count(), 2U);
  EXPECT_EQ(report.snapshot.prompt_tokens, 20U) << "one never had a place";
  EXPECT_EQ(report.statistics.choices.count(), 1U);
}

TEST(EngineStatisticsTest, ARequestWhoseReaderHasAllItWantsWasServed) {
  TinyEngine tiny = MakeTinyEngine({.context = 1024});
  TokenStream stream = tiny.Submit(GreedyRequest(TinyPrompt(20), -1));
  TokenEvent event;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(stream.Next(&event, kPatience), StreamOutcome::kEvent);
  stream.Finish();
  EXPECT_EQ(ReadAll(&stream).front().finish, FinishReason::kStop);
  const EngineReport report = LastReport(&tiny);
  ExpectConsistent(report);
  EXPECT_THAT(report.statistics.ended_choices, ElementsAre(1, 0, 0, 0));
  EXPECT_GE(report.statistics.generated_tokens.sum, 3);
}

TEST(EngineStatisticsTest, PreemptionCountsNothingTwice) {
  const TinySession shape = MakeTinySession({});
  const std::uint64_t bytes = shape.session->footprint().PageBytes(200) + (48 << 10);
  // The engine waits at the first token until all requests are there, so that they grow together.
  std::latch all_submitted(1);
  TinyEngine tiny = MakeTinyEngine({.context = 512, .chunk = 32, .cache_bytes = bytes});
  std::vector<TokenStream> streams;
  for (int i = 0; i < 3; ++i) {
    EngineRequest request = GreedyRequest(TinyPrompt(20, i), 120);
    if (i == 0) request.on_ready = [&all_submitted] { all_submitted.wait(); };
    streams.push_back(tiny.Submit(std::move(request)));
  }
  all_submitted.count_down();
  std::uint64_t preemptions = 0;
  for (TokenStream& stream : streams) {
    ReadAll(&stream);
    preemptions += static_cast<std::uint64_t>(stream.usage().preemptions);
  }
  const EngineReport report = LastReport(&tiny);
  ExpectConsistent(report);
  EXPECT_GT(preemptions, 0U);
  EXPECT_EQ(report.snapshot.preemptions, preemptions);
  EXPECT_EQ(report.snapshot.generated_tokens, 3U * 120);
  EXPECT_EQ(report.snapshot.prompt_tokens, 3U * 20);
  EXPECT_EQ(report.statistics.prefix_queried_tokens, 3U * 20);
  EXPECT_EQ(report.statistics.first_token_seconds.count(), 3U);
  EXPECT_THAT(report.statistics.ended_choices, ElementsAre(0, 3, 0, 0));
  EXPECT_GT(report.statistics.step_tokens.sum, 3 * (20 + 119)) << "what was lost is computed again";
}

TEST(EngineStatisticsTest, FailedRequestsAreCountedAsThat) {
  const TinySession shape = MakeTinySession({});
  const std::uint64_t bytes = shape.session->footprint().PageBytes(160) + (48 << 10);
  TinyEngine tiny = MakeTinyEngine({.context = 1024, .cache_bytes = bytes});
  std::uint64_t failed = 0;
  std::uint64_t served = 0;
  // Some of these fit by their pages alone, and not with what describes them.
  for (int length = 140; length < 300; length += 7) {
    Result<TokenStream> stream = tiny.engine->Submit(GreedyRequest(TinyPrompt(length, length), 1));
    if (!stream.ok()) continue;
    ReadAll(&*stream);
    ++(stream->status().ok() ? served : failed);
  }
  const EngineReport report = LastReport(&tiny);
  ExpectConsistent(report);
  EXPECT_GT(failed, 0U);
  EXPECT_EQ(Ended(report.statistics, ChoiceEnd::kFailed), failed);
  EXPECT_EQ(Ended(report.statistics, ChoiceEnd::kLength), served);
}

TEST(EngineStatisticsTest, PrefixesAreCountedOnceWithWhyTheyEnded) {
  TinyEngine tiny = MakeTinyEngine({});
  const std::vector<TokenId> prompt = TinyPrompt(97);
  std::uint64_t cached = 0;
  for (int i = 0; i < 3; ++i) {
    TokenStream stream = tiny.Submit(GreedyRequest(prompt, 2));
    ReadAll(&stream);
    cached += static_cast<std::uint64_t>(stream.usage().cached_tokens);
  }
  std::vector<TokenId> other = prompt;
  other[50] = 7;
  TokenStream stream = tiny.Submit(GreedyRequest(other, 2));
  ReadAll(&stream);
  cached += static_cast<std::uint64_t>(stream.usage().cached_tokens);
  const EngineReport report = LastReport(&tiny);
  ExpectConsistent(report);
  const EngineStatistics& s = report.statistics;
  EXPECT_GT(cached, 200U);
  EXPECT_EQ(s.prefix_hit_tokens, cached);
  EXPECT_EQ(s.prefix_queried_tokens, 4U * 97);
  EXPECT_DOUBLE_EQ(s.computed_prompt_tokens.sum, 4.0 * 97 - static_cast<double>(cached));
  const auto ends = [&s](PrefixEnd end) { return s.prefix_ends[static_cast<std::size_t>(end)]; };
  EXPECT_EQ(ends(PrefixEnd::kNeverSeen), 1U);
  EXPECT_EQ(ends(PrefixEnd::kWholePrompt), 2U);
  EXPECT_EQ(ends(PrefixEnd::kTokenDiffers), 1U);
}

// Three sequences stand still because nobody reads: what they hold can be compared in peace.
TEST(EngineStatisticsTest, HeldBytesAddUpToTheCachesOwnCount) {
  TinyEngine tiny = MakeTinyEngine({});
  EngineRequest request = GreedyRequest(TinyPrompt(64), 40);
  request.share_prefix = false;
  request.buffered_events = 3;
  std::vector<TokenStream> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(tiny.Submit(request));
  while (tiny.engine->Report().statistics.paused < 3) std::this_thread::yield();
  const EngineReport report = tiny.engine->Report();
  const EngineStatistics& s = report.statistics;
  ASSERT_EQ(s.formats.size(), 1U);
  const FormatUse& use = s.formats.front();
  EXPECT_EQ(use.format, (KvFormat{.key = "f32", .value = "f32"}));
  EXPECT_EQ(use.sequences, 3U);
  EXPECT_EQ(use.tokens, report.snapshot.balance.live_tokens);
  EXPECT_EQ(use.bytes, report.snapshot.balance.live_private_bytes);
  EXPECT_EQ(use.f16_bytes, use.bytes / 2);
  EXPECT_EQ(s.unfilled_bytes, use.bytes - use.bytes * use.tokens / (3 * 80)) << "of 5 blocks each";
  EXPECT_EQ(s.stream_pauses, 3U);
  for (TokenStream& stream : streams) EXPECT_EQ(ReadAll(&stream).front().tokens.size(), 40U);
  const EngineReport last = LastReport(&tiny);
  ExpectConsistent(last);
  EXPECT_GE(last.statistics.stream_pauses, 3U);
}

TEST(EngineStatisticsTest, CountsNeverFallWhileRequestsComeAndGo) {
  TinyEngine tiny = MakeTinyEngine({.chunk = 16}, {.max_sequences = 4});
  std::vector<TokenStream> streams;
  for (int i = 0; i < 24; ++i) {
    streams.push_back(tiny.Submit(GreedyRequest(TinyPrompt(10 + i, i % 5), 15)));
    if (i % 3 == 0) streams.back().Cancel();
  }
  EngineReport before = tiny.engine->Report();
  while (before.snapshot.finished_requests < streams.size()) {
    const EngineReport now = tiny.engine->Report();
    const EngineStatistics& a = before.statistics;
    const EngineStatistics& b = now.statistics;
    for (std::size_t i = 0; i < kChoiceEnds; ++i) {
      ASSERT_LE(a.ended_choices[i], b.ended_choices[i]);
    }
    ASSERT_LE(a.prefix_queried_tokens, b.prefix_queried_tokens);
    ASSERT_LE(a.prefix_hit_tokens, b.prefix_hit_tokens);
    ASSERT_LE(a.token_gap_seconds.count(), b.token_gap_seconds.count());
    ASSERT_LE(a.token_gap_seconds.sum, b.token_gap_seconds.sum);
    ASSERT_LE(before.snapshot.generated_tokens, now.snapshot.generated_tokens);
    ASSERT_LE(before.snapshot.prompt_tokens, now.snapshot.prompt_tokens);
    ASSERT_EQ(b.first_token_seconds.count() + b.token_gap_seconds.count(),
              now.snapshot.generated_tokens);
    before = now;
    std::this_thread::yield();
  }
  for (TokenStream& stream : streams) ReadAll(&stream);
  const EngineReport report = LastReport(&tiny);
  ExpectConsistent(report);
  EXPECT_EQ(EndedChoices(report.statistics), streams.size());
}

}  // namespace
}  // namespace swiftkv
