// SPDX-License-Identifier: Apache-2.0
// Defines the buckets of histograms.
//
// The bounds are those that vLLM's V1 engine uses, so that dashboards and alerts made for it read
// the same here.
#include "engine/engine_statistics.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace swiftkv {
namespace {

constexpr double kFirstTokenBounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                        0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                        20,    40,    80,   160,  640,  2560};
constexpr double kTokenBounds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                   0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
constexpr double kRequestBounds[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                     30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
constexpr double kStepBounds[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
constexpr double kChoiceBounds[] = {1, 2, 5, 10, 20};
constexpr double kLengthBounds[] = {1,   2,   5,   10,  20,  50,  100, 200, 500, 1e3,
                                    2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6};

Histogram Over(std::span<const double> bounds) {
  SKV_CHECK(bounds.size() <= Histogram::kMostBounds);
  return {.bounds = bounds};
}

std::span<const double> LengthsUpTo(int most) {
  const std::span<const double> all(kLengthBounds);
  return all.first(
      static_cast<std::size_t>(std::upper_bound(all.begin(), all.end(), most) - all.begin()));
}

}  // namespace

void Histogram::Observe(double value) {
  const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin();
  ++counts[static_cast<std::size_t>(bucket)];
  sum += value;
}

std::uint64_t Histogram::count() const {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

EngineStatistics::EngineStatistics(int context)
    : step_tokens(Over(kStepBounds)),
      first_token_seconds(Over(kFirstTokenBounds)),
      token_gap_seconds(Over(kTokenBounds)),
      choices(Over(kChoiceBounds)),
      total_seconds(Over(kRequestBounds)),
      queue_seconds(Over(kRequestBounds)),
      prefill_seconds(Over(kRequestBounds)),
      decode_seconds(Over(kRequestBounds)),
      inference_seconds(Over(kRequestBounds)),
      seconds_per_token(Over(kTokenBounds)),
      prompt_tokens(Over(LengthsUpTo(context))),
      computed_prompt_tokens(Over(LengthsUpTo(context))),
      generated_tokens(Over(LengthsUpTo(context))),
      longest_tokens(Over(LengthsUpTo(context))),
      asked_tokens(Over(LengthsUpTo(context))) {}

}  // namespace swiftkv
