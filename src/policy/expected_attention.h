// SPDX-License-Identifier: Apache-2.0
// Declares the policy `expected_attention`: keep what future queries are expected to read.
#pragma once

#include "policy/eviction_policy.h"

namespace swiftkv {

// Parameters: horizon (default 512), future positions that rotations are averaged over; epsilon
// (default 0.01), added to each probability; sinks (default 4), the first positions, which are
// outside of the softmax and get the highest score of their head.
class ExpectedAttentionPolicy final : public EvictionPolicy {
 public:
  const PolicyInfo& info() const override;
  Status Validate(const PolicyParameters& parameters) const override;
  void Score(const ScoreInputs& inputs, const PolicyParameters& parameters,
             std::span<float> scores) const override;
};

extern const ExpectedAttentionPolicy kExpectedAttentionPolicy;

}  // namespace swiftkv
