// SPDX-License-Identifier: Apache-2.0
// Ranks the tokens of one head, sinks before all others, and says what its pages are worth.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/page_plan.h"

namespace swiftkv {

// What makes scores of a layer comparable with those of others: (score - mean) * inverse_spread.
struct ScoreRange {
  double mean = 0;
  double inverse_spread = 1;
};

// Returns mean and standard deviation of all scores of a layer but the sinks'; scores that are all
// alike become 0.
ScoreRange RangeOfScores(std::span<const HeadCandidates> heads, int sinks);

struct RankedTokens {
  std::vector<std::int32_t> order;  // indices, the best first; of equal scores the newer first
  std::vector<float> page_values;   // [pages] mean scores, never rising; +inf for pages of sinks
  int sink_pages = 0;               // which hold the sinks
};

// Returns indices of the tokens: sinks, the positions below `sinks`, then the best first; of equal
// scores the newer first.
std::vector<std::int32_t> RankedOrder(const HeadCandidates& head, int sinks);

RankedTokens RankTokens(const HeadCandidates& head, int sinks, const ScoreRange& range);

}  // namespace swiftkv
