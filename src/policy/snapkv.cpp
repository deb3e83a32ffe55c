// SPDX-License-Identifier: Apache-2.0
// Scores tokens by the attention that the newest queries of the prompt paid to them.
//
// With a_t the probability of token t, averaged over the observed queries and the heads of the
// group, and n the number of tokens before the observed queries:
//     score = (1 / pool) * sum of a_j for |j - t| <= (pool - 1) / 2, 0 <= j < n    for t < n
//             the highest of these                                                 for t >= n
// Neighbours are neighbours among the tokens given. Paper: Li et al., "SnapKV: LLM Knows What You
// Are Looking for Before Generation" (2024). The question decides, so what it keeps is nobody
// else's. Cost: pool operations a token and kv head, and a second reading of K by the observed
// queries (AttentionBackend::Score).
#include "policy/snapkv.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/status_macros.h"
#include "policy/policy_parameters.h"

namespace swiftkv {
namespace {

constexpr ParameterSpec kParameters[] = {
    {.name = "window", .default_value = 64, .least = 1, .most = 1024, .whole = true},
    {.name = "pool", .default_value = 5, .least = 1, .most = 255, .whole = true},
};
constexpr const ParameterSpec& kWindow = kParameters[0];
constexpr const ParameterSpec& kPool = kParameters[1];

constexpr PolicyInfo kInfo = {
    .name = "snapkv",
    .description = "keep what the newest queries of the prompt read, and its neighbours",
    .paper = "SnapKV: LLM Knows What You Are Looking for Before Generation (2024)",
    .needs = {.probabilities = true},
    .query_agnostic = false,
    .usual_split = BudgetSplit::kUniform,
    .parameters = kParameters,
};

// `probabilities` are those of tokens before the observed queries.
void PoolHead(std::span<const float> probabilities, std::size_t reach, float factor,
              std::span<float> scores) {
  const std::size_t count = probabilities.size();
  std::fill(scores.begin(), scores.end(), 0.0F);
  for (std::size_t shift = 0; shift <= std::min(reach, count); ++shift) {
    const std::size_t overlap = count - shift;
    for (std::size_t t = 0; t < overlap; ++t) scores[t] += factor * probabilities[t + shift];
    if (shift == 0) continue;
    for (std::size_t t = 0; t < overlap; ++t) scores[t + shift] += factor * probabilities[t];
  }
  const auto pooled = scores.first(count);
  const float highest = pooled.empty() ? 0.0F : *std::max_element(pooled.begin(), pooled.end());
  std::fill(scores.begin() + static_cast<std::ptrdiff_t>(count), scores.end(), highest);
}

}  // namespace

constinit const SnapKvPolicy kSnapKvPolicy;

const PolicyInfo& SnapKvPolicy::info() const { return kInfo; }

Status SnapKvPolicy::Validate(const PolicyParameters& parameters) const {
  SKV_RETURN_IF_ERROR(CheckParameters(kInfo, parameters));
  const double pool = ParameterValue(kPool, parameters);
  if (std::fmod(pool, 2) == 1) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("pool of policy {} is an odd number, not: {}", kInfo.name, pool));
}

int SnapKvPolicy::ObservedQueries(const PolicyParameters& parameters) const {
  return static_cast<int>(ParameterValue(kWindow, parameters));
}

void SnapKvPolicy::Score(const ScoreInputs& inputs, const PolicyParameters& parameters,
                         std::span<float> scores) const {
  const auto tokens = static_cast<std::size_t>(inputs.num_tokens);
  const auto heads = static_cast<std::size_t>(inputs.kv_heads);
  SKV_CHECK(inputs.positions.size() == tokens && scores.size() == heads * tokens);
  SKV_CHECK(inputs.probabilities.size() == heads * tokens);
  SKV_CHECK(tokens == 0 || inputs.observed_queries > 0, "probabilities are of some queries");
  const std::int64_t end = inputs.next_position - inputs.observed_queries;
  const auto first_observed =
      std::lower_bound(inputs.positions.begin(), inputs.positions.end(), end);
  const auto before = static_cast<std::size_t>(first_observed - inputs.positions.begin());
  const double pool = ParameterValue(kPool, parameters);
  const double queries = std::max(1.0, static_cast<double>(inputs.observed_queries) * inputs.gqa);
  for (std::size_t head = 0; head < heads; ++head) {
    PoolHead(inputs.probabilities.subspan(head * tokens, before),
             static_cast<std::size_t>(pool) / 2, static_cast<float>(1 / (pool * queries)),
             scores.subspan(head * tokens, tokens));
  }
}

}  // namespace swiftkv
