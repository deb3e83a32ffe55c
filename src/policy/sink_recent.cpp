// SPDX-License-Identifier: Apache-2.0
// Scores tokens by age alone, except for the first ones, which much of the attention rests on.
//
// With p a token's position and n the logical length of the sequence:
//     score = 1             where p < sinks
//             p - n  (< 0)  elsewhere: the newer, the higher
// Exact in f32 for sequences below 2^24 tokens. Paper: Xiao et al., "Efficient Streaming Language
// Models with Attention Sinks" (2023). Here positions stay the original ones.
#include "policy/sink_recent.h"

#include <algorithm>

#include "base/check.h"
#include "policy/policy_parameters.h"

namespace swiftkv {
namespace {

constexpr ParameterSpec kSinks = {
    .name = "sinks", .default_value = 4, .least = 0, .most = 65536, .whole = true};

constexpr PolicyInfo kInfo = {
    .name = "sink_recent",
    .description = "keep the first tokens and the newest ones",
    .paper = "Efficient Streaming Language Models with Attention Sinks (2023); a control",
    .needs = {},
    .query_agnostic = true,
    .usual_split = BudgetSplit::kUniform,
    .parameters = {&kSinks, 1},
};

}  // namespace

constinit const SinkRecentPolicy kSinkRecentPolicy;

const PolicyInfo& SinkRecentPolicy::info() const { return kInfo; }

Status SinkRecentPolicy::Validate(const PolicyParameters& parameters) const {
  return CheckParameters(kInfo, parameters);
}

void SinkRecentPolicy::Score(const ScoreInputs& inputs, const PolicyParameters& parameters,
                             std::span<float> scores) const {
  const auto tokens = static_cast<std::size_t>(inputs.num_tokens);
  const auto heads = static_cast<std::size_t>(inputs.kv_heads);
  SKV_CHECK(inputs.positions.size() == tokens && scores.size() == heads * tokens);
  const double sinks = ParameterValue(kSinks, parameters);
  for (std::size_t t = 0; t < tokens; ++t) {
    const std::int64_t position = inputs.positions[t];
    scores[t] = static_cast<double>(position) < sinks
                    ? 1.0F
                    : static_cast<float>(position - inputs.next_position);
  }
  for (std::size_t head = 1; head < heads; ++head) {
    std::copy_n(scores.begin(), tokens,
                scores.begin() + static_cast<std::ptrdiff_t>(head * tokens));
  }
}

}  // namespace swiftkv
