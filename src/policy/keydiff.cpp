// SPDX-License-Identifier: Apache-2.0
// Scores keys by how little they are like the others: attention to similar keys is redundant.
//
// With k_t the stored keys (after RoPE) of one kv head and u_t = k_t / ||k_t||:
//     score = -cos(k_t, sum of all u)
// in [-1, 1]; a zero key, or zero sum, gives 0. Paper: Park et al., "KeyDiff: Key Similarity-Based
// KV Cache Eviction for Long-Context LLM Inference in Resource-Constrained Environments" (2025).
// Cost: keys are read twice, 4 * head_dim operations a token and kv head.
#include "policy/keydiff.h"

#include <cmath>
#include <vector>

#include "base/check.h"
#include "policy/policy_parameters.h"

namespace swiftkv {
namespace {

constexpr PolicyInfo kInfo = {
    .name = "keydiff",
    .description = "keep the keys that are least like the mean of all",
    .paper = "KeyDiff: Key Similarity-Based KV Cache Eviction (2025)",
    .needs = {.keys = true},
    .query_agnostic = true,
    .usual_split = BudgetSplit::kAda,
    .parameters = {},
};

// Sums in lanes, so that compilers may use vectors without reordering what is written.
constexpr std::size_t kLanes = 16;

float Dot(const float* a, const float* b, std::size_t dim) {
  float lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  float sum = 0;
  for (; i < dim; ++i) sum += a[i] * b[i];
  for (const float lane : lanes) sum += lane;
  return sum;
}

// 1 / norm, or 0 where there is no direction.
float InverseNorm(float square) {
  return square > 0 && std::isfinite(square) ? 1.0F / std::sqrt(square) : 0.0F;
}

void ScoreHead(const float* keys, std::size_t dim, std::span<float> scores) {
  std::vector<float> sum(dim);
  for (std::size_t t = 0; t < scores.size(); ++t) {
    const float* const key = keys + t * dim;
    const float inverse = InverseNorm(Dot(key, key, dim));
    scores[t] = inverse;  // kept for the second pass
    for (std::size_t i = 0; i < dim; ++i) sum[i] += inverse * key[i];
  }
  const float inverse_sum = InverseNorm(Dot(sum.data(), sum.data(), dim));
  for (float& of_sum : sum) of_sum *= -inverse_sum;
  for (std::size_t t = 0; t < scores.size(); ++t) {
    scores[t] = scores[t] == 0 ? 0 : scores[t] * Dot(keys + t * dim, sum.data(), dim);
  }
}

}  // namespace

constinit const KeyDiffPolicy kKeyDiffPolicy;

const PolicyInfo& KeyDiffPolicy::info() const { return kInfo; }

Status KeyDiffPolicy::Validate(const PolicyParameters& parameters) const {
  return CheckParameters(kInfo, parameters);
}

void KeyDiffPolicy::Score(const ScoreInputs& inputs, const PolicyParameters&,
                          std::span<float> scores) const {
  const auto tokens = static_cast<std::size_t>(inputs.num_tokens);
  const auto heads = static_cast<std::size_t>(inputs.kv_heads);
  const auto dim = static_cast<std::size_t>(inputs.head_dim);
  SKV_CHECK(inputs.keys.size() == heads * tokens * dim && scores.size() == heads * tokens);
  for (std::size_t head = 0; head < heads; ++head) {
    ScoreHead(inputs.keys.data() + head * tokens * dim, dim, scores.subspan(head * tokens, tokens));
  }
}

}  // namespace swiftkv
