// SPDX-License-Identifier: Apache-2.0
// Scores tokens at random: what a method is worth is what it is better than this.
//
// With h(x) the finaliser of SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number
// Generators", 2014) and p a token's position:
//     score = h(h(h(seed + layer) + head) + p) / 2^64, cut to 24 bits
// It depends on a token's place alone, so a second run drops of what the first one kept.
#include "policy/random_control.h"
#include "base/check.h"
#include "policy/policy_parameters.h"

namespace swiftkv {
namespace {

constexpr PolicyInfo kInfo = {
    .name = "random",
    .description = "keep tokens at random, by the seed",
    .paper = "none; a control",
    .needs = {},
    .query_agnostic = true,
    .usual_split = BudgetSplit::kUniform,
    .parameters = {},
};

constexpr std::uint64_t Mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

}  // namespace

constinit const RandomPolicy kRandomPolicy;

const PolicyInfo& RandomPolicy::info() const { return kInfo; }

Status RandomPolicy::Validate(const PolicyParameters& parameters) const {
  return CheckParameters(kInfo, parameters);
}

void RandomPolicy::Score(const ScoreInputs& inputs, const PolicyParameters&,
                         std::span<float> scores) const {
  const auto tokens = static_cast<std::size_t>(inputs.num_tokens);
  const auto heads = static_cast<std::size_t>(inputs.kv_heads);
  SKV_CHECK(inputs.positions.size() == tokens && scores.size() == heads * tokens);
  const std::uint64_t of_layer = Mixed(inputs.seed + static_cast<std::uint64_t>(inputs.layer));
  for (std::size_t head = 0; head < heads; ++head) {
    const std::uint64_t number = static_cast<std::uint64_t>(inputs.first_head) + head;
    const std::uint64_t of_head = Mixed(of_layer + number);
    for (std::size_t t = 0; t < tokens; ++t) {
      const auto position = static_cast<std::uint64_t>(inputs.positions[t]);
      scores[head * tokens + t] = static_cast<float>(Mixed(of_head + position) >> 40) * 0x1.0p-24F;
    }
  }
}

}  // namespace swiftkv
