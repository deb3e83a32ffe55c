// SPDX-License-Identifier: Apache-2.0
// Declares the policy `random`: keep any tokens, the control of every method.
#pragma once

#include "policy/eviction_policy.h"

namespace swiftkv {

// No parameters. Scores are uniform in [0, 1).
class RandomPolicy final : public EvictionPolicy {
 public:
  const PolicyInfo& info() const override;
  Status Validate(const PolicyParameters& parameters) const override;
  void Score(const ScoreInputs& inputs, const PolicyParameters& parameters,
             std::span<float> scores) const override;
};

extern const RandomPolicy kRandomPolicy;

}  // namespace swiftkv
