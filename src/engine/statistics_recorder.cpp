// SPDX-License-Identifier: Apache-2.0
// Turns a request's times and tokens into counts and histograms.
#include "engine/statistics_recorder.h"

#include <algorithm>
#include <utility>

#include "base/saturating.h"

namespace swiftkv {
namespace {

ChoiceEnd EndOf(const ActiveChoice& choice) {
  if (!choice.finish) return ChoiceEnd::kFailed;
  switch (*choice.finish) {
    case FinishReason::kStop:
      return ChoiceEnd::kStop;
    case FinishReason::kLength:
      return ChoiceEnd::kLength;
    case FinishReason::kCancelled:
      break;
  }
  return ChoiceEnd::kCancelled;
}

bool EndedByItself(const ActiveChoice& choice) {
  const ChoiceEnd end = EndOf(choice);
  return end == ChoiceEnd::kStop || end == ChoiceEnd::kLength;
}

std::size_t GeneratedBy(const ActiveRequest& request, const ActiveChoice& choice) {
  return SaturatingSubtract(choice.tokens.size(), request.prompt_tokens());
}

// What the pages that the choice holds take by shape, in a format of `footprint`.
std::uint64_t PageBytesOf(const ActiveRequest& request, const ActiveChoice& choice,
                          const KvFootprint& footprint) {
  if (request.reserved_tokens > 0) return footprint.ReservedBytes(request.reserved_tokens);
  const auto tokens = static_cast<std::int64_t>(choice.computed);
  return tokens > 0 ? footprint.PageBytes(tokens) : 0;
}

}  // namespace

StatisticsRecorder::StatisticsRecorder(int context, std::span<const LayerShape> layers,
                                       const KvFormat& format, std::uint64_t limit_bytes)
    : statistics_(context) {
  const Result<KvFootprint> own = KvFootprint::Make(layers, format.key, format.value);
  const Result<KvFootprint> f16 = KvFootprint::Make(layers, "f16", "f16");
  if (own.ok()) statistics_.capacity_tokens = own->TokensWithin(limit_bytes);
  if (f16.ok()) f16_ = *f16;
  UseOf(format);
}

FormatUse* StatisticsRecorder::UseOf(const KvFormat& format) {
  for (FormatUse& use : statistics_.formats) {
    if (use.format == format) return &use;
  }
  statistics_.formats.push_back({.format = format});
  return &statistics_.formats.back();
}

void StatisticsRecorder::GotFirstPlace(const ActiveRequest& request) {
  statistics_.choices.Observe(static_cast<double>(request.choices.size()));
  if (!request.scope.share) return;
  statistics_.prefix_queried_tokens += request.prompt_tokens();
  statistics_.prefix_hit_tokens += static_cast<std::uint64_t>(request.usage.cached_tokens);
}

void StatisticsRecorder::FoundMore(const ActiveRequest& request, std::size_t tokens) {
  if (request.scope.share) statistics_.prefix_hit_tokens += tokens;
}

void StatisticsRecorder::DrewToken(const ActiveRequest& request, ActiveChoice* choice) {
  const double now = request.SecondsSinceSubmit();
  if (request.usage.completion_tokens == 1) {
    ++statistics_.prefix_ends[static_cast<std::size_t>(request.usage.prefix_end)];
  }
  if (!choice->first_token_seconds) {
    choice->first_token_seconds = now;
    statistics_.first_token_seconds.Observe(now);
  } else {
    statistics_.token_gap_seconds.Observe(now - choice->last_token_seconds);
  }
  choice->last_token_seconds = now;
}

void StatisticsRecorder::EndedChoice(const ActiveRequest& request, const ActiveChoice& choice) {
  ++statistics_.ended_choices[static_cast<std::size_t>(EndOf(choice))];
  // Others were withdrawn before they had a place.
  if (EndedByItself(choice) && request.left_queue) Measure(request, choice);
}

void StatisticsRecorder::EndedRequest(const ActiveRequest& request) {
  if (!request.left_queue) return;
  std::optional<std::size_t> longest;
  for (const ActiveChoice& choice : request.choices) {
    if (!EndedByItself(choice)) continue;
    longest = std::max(longest.value_or(0), GeneratedBy(request, choice));
  }
  if (longest) statistics_.longest_tokens.Observe(static_cast<double>(*longest));
}

void StatisticsRecorder::Measure(const ActiveRequest& request, const ActiveChoice& choice) {
  EngineStatistics& s = statistics_;
  const std::size_t generated = GeneratedBy(request, choice);
  const double placed = request.usage.queue_seconds;
  s.total_seconds.Observe(request.SecondsSinceSubmit());
  s.queue_seconds.Observe(placed);
  s.prompt_tokens.Observe(static_cast<double>(request.prompt_tokens()));
  s.computed_prompt_tokens.Observe(static_cast<double>(
      static_cast<std::int64_t>(request.prompt_tokens()) - request.usage.cached_tokens));
  s.generated_tokens.Observe(static_cast<double>(generated));
  if (request.asked.max_tokens >= 0) {
    s.asked_tokens.Observe(static_cast<double>(request.asked.max_tokens));
  }
  if (!choice.first_token_seconds) return;
  const double first = *choice.first_token_seconds;
  const double last = choice.last_token_seconds;
  s.prefill_seconds.Observe(first - placed);
  s.decode_seconds.Observe(last - first);
  s.inference_seconds.Observe(last - placed);
  if (generated > 1)
    s.seconds_per_token.Observe((last - first) / static_cast<double>(generated - 1));
}

void StatisticsRecorder::BeginMoment() {
  for (FormatUse& use : statistics_.formats) use = {.format = std::move(use.format)};
  statistics_.unfilled_bytes = 0;
  statistics_.paused = 0;
}

void StatisticsRecorder::Holds(const ActiveRequest& request, const ActiveChoice& choice,
                               std::optional<std::uint64_t> held_bytes) {
  const auto tokens = static_cast<std::int64_t>(choice.computed);
  const std::uint64_t all_bytes = PageBytesOf(request, choice, request.footprint);
  const std::uint64_t bytes = held_bytes.value_or(all_bytes);
  const std::uint64_t forgotten = SaturatingSubtract(all_bytes, bytes);
  FormatUse* const use = UseOf(request.format);
  ++use->sequences;
  use->tokens += choice.computed;
  use->bytes += bytes;
  use->forgotten_bytes += forgotten;
  if (f16_ && all_bytes > 0) {
    const double kept = static_cast<double>(bytes) / static_cast<double>(all_bytes);
    const auto f16 = static_cast<double>(PageBytesOf(request, choice, *f16_));
    use->f16_bytes += static_cast<std::uint64_t>(kept * f16);
  }
  const std::uint64_t filled = tokens > 0 ? request.footprint.FilledBytes(tokens) : 0;
  statistics_.unfilled_bytes += SaturatingSubtract(all_bytes, filled);
}

}  // namespace swiftkv
