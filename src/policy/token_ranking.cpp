// SPDX-License-Identifier: Apache-2.0
// Sorts tokens by score and averages pages of them.
#include "policy/token_ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "swiftkv/page_codec.h"

namespace swiftkv {
namespace {

std::size_t CountSinks(const HeadCandidates& head, int sinks) {
  const auto end = std::lower_bound(head.positions.begin(), head.positions.end(), sinks);
  return static_cast<std::size_t>(end - head.positions.begin());
}

}  // namespace

ScoreRange RangeOfScores(std::span<const HeadCandidates> heads, int sinks) {
  double sum = 0;
  double count = 0;
  for (const HeadCandidates& head : heads) {
    const auto rest = head.scores.subspan(CountSinks(head, sinks));
    for (const float score : rest) sum += static_cast<double>(score);
    count += static_cast<double>(rest.size());
  }
  if (count == 0) return {};
  ScoreRange range;
  range.mean = sum / count;
  double squares = 0;
  for (const HeadCandidates& head : heads) {
    for (const float score : head.scores.subspan(CountSinks(head, sinks))) {
      const double apart = static_cast<double>(score) - range.mean;
      squares += apart * apart;
    }
  }
  range.inverse_spread = squares > 0 ? 1 / std::sqrt(squares / count) : 0;
  return range;
}

std::vector<std::int32_t> RankedOrder(const HeadCandidates& head, int sinks) {
  std::vector<std::int32_t> order(head.scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin() + static_cast<std::ptrdiff_t>(CountSinks(head, sinks)), order.end(),
            [&](std::int32_t a, std::int32_t b) {
              const float of_a = head.scores[static_cast<std::size_t>(a)];
              const float of_b = head.scores[static_cast<std::size_t>(b)];
              return of_a != of_b ? of_a > of_b : a > b;
            });
  return order;
}

RankedTokens RankTokens(const HeadCandidates& head, int sinks, const ScoreRange& range) {
  const std::size_t num_sinks = CountSinks(head, sinks);
  RankedTokens ranked;
  ranked.order.assign(head.order.begin(), head.order.end());
  if (ranked.order.empty()) ranked.order = RankedOrder(head, sinks);
  SKV_CHECK(ranked.order.size() == head.scores.size());
  ranked.sink_pages = static_cast<int>((num_sinks + kPageTokens - 1) / kPageTokens);
  float lowest = std::numeric_limits<float>::infinity();
  for (std::size_t first = 0; first < ranked.order.size(); first += kPageTokens) {
    if (first < num_sinks) {
      ranked.page_values.push_back(lowest);
      continue;
    }
    const std::size_t end = std::min(first + kPageTokens, ranked.order.size());
    double sum = 0;
    for (std::size_t i = first; i < end; ++i) {
      const float score = head.scores[static_cast<std::size_t>(ranked.order[i])];
      SKV_CHECK(std::isfinite(score), "scores are finite");
      sum += static_cast<double>(score);
    }
    const double mean = sum / static_cast<double>(end - first);
    // Rounding must not make a mean of falling scores rise.
    lowest = std::min(lowest, static_cast<float>((mean - range.mean) * range.inverse_spread));
    ranked.page_values.push_back(lowest);
  }
  return ranked;
}

}  // namespace swiftkv
