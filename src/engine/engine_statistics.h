// SPDX-License-Identifier: Apache-2.0
// Holds what an engine has counted and measured since it started, as plain data. Layer: engine.
//
// Filled on the engine's thread by StatisticsRecorder and copied out once a step, so whoever reads
// delays nobody. Counts never fall. Each choice of a request counts by itself, once, whatever
// becomes of it; only what is said to be of requests counts a request once.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "swiftkv/engine.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {

// Counts values in fixed buckets. Bounds are constants of the program.
struct Histogram {
  static constexpr std::size_t kMostBounds = 24;

  std::span<const double> bounds;  // ascending, inclusive
  // [bounds.size() + 1] values above the bound before and up to this one; the last has no bound
  std::array<std::uint64_t, kMostBounds + 1> counts = {};
  double sum = 0;

  // `value` is finite.
  void Observe(double value);
  std::uint64_t count() const;
};

// How a choice ended.
enum class ChoiceEnd : std::uint8_t { kStop, kLength, kCancelled, kFailed };
inline constexpr std::size_t kChoiceEnds = 4;
inline constexpr std::size_t kPrefixEnds = static_cast<std::size_t>(PrefixEnd::kNotShared) + 1;

// What the sequences of one format hold now, as if each had its pages for itself.
struct FormatUse {
  KvFormat format;
  std::uint64_t sequences = 0;
  std::uint64_t tokens = 0;
  std::uint64_t bytes = 0;            // of whole pages
  std::uint64_t f16_bytes = 0;        // that the same tokens would take in f16
  std::uint64_t forgotten_bytes = 0;  // that forgotten tokens would take on top of `bytes`
};

struct EngineStatistics {
  // `context`: tokens that one sequence may hold.
  explicit EngineStatistics(int context = 0);

  std::array<std::uint64_t, kChoiceEnds> ended_choices = {};  // [ChoiceEnd]
  // Of requests, at their first token: why no more of the prompt was found. [PrefixEnd]
  std::array<std::uint64_t, kPrefixEnds> prefix_ends = {};
  // Prompts of requests that looked for a prefix, at their first place, and what they found.
  std::uint64_t prefix_queried_tokens = 0;
  std::uint64_t prefix_hit_tokens = 0;
  std::uint64_t stream_pauses = 0;  // times that a request stopped because nobody read its events
  std::uint64_t failed_steps = 0;   // forward passes that ended with an error

  Histogram step_tokens;          // rows of a forward pass
  Histogram first_token_seconds;  // from Submit to a choice's first token
  Histogram token_gap_seconds;    // between two tokens of a choice
  Histogram choices;              // of a request, at its first place

  // Of choices that ended by themselves, with kStop or kLength:
  Histogram total_seconds;           // from Submit to the end
  Histogram queue_seconds;           // from Submit to the request's first place
  Histogram prefill_seconds;         // from there to the first token, where there is one
  Histogram decode_seconds;          // from there to the last token
  Histogram inference_seconds;       // from the first place to the last token
  Histogram seconds_per_token;       // mean gap, of two tokens or more
  Histogram prompt_tokens;           // length of the prompt
  Histogram computed_prompt_tokens;  // of these, not found in the cache
  Histogram generated_tokens;        // length of the reply
  Histogram longest_tokens;          // of a request's replies, once a request
  Histogram asked_tokens;            // max_tokens, where it was given

  // As it is now.
  std::vector<FormatUse> formats;    // every one that was ever asked for, the engine's own first
  std::uint64_t unfilled_bytes = 0;  // of live pages: slots that hold no token
  int paused = 0;                    // requests that nobody reads
  std::int64_t capacity_tokens = 0;  // that fit into the bound in the engine's own format
};

// Both of the same moment: the end of a step.
struct EngineReport {
  EngineSnapshot snapshot;
  EngineStatistics statistics;
};

}  // namespace swiftkv
