// SPDX-License-Identifier: Apache-2.0
// Declares the policy `snapkv`: keep what the newest queries read.
#pragma once

#include "policy/eviction_policy.h"

namespace swiftkv {

// Parameters: window (default 64), the newest queries that are observed; pool (default 5), odd, the
// neighbouring tokens that a score is averaged over.
class SnapKvPolicy final : public EvictionPolicy {
 public:
  const PolicyInfo& info() const override;
  Status Validate(const PolicyParameters& parameters) const override;
  int ObservedQueries(const PolicyParameters& parameters) const override;
  void Score(const ScoreInputs& inputs, const PolicyParameters& parameters,
             std::span<float> scores) const override;
};

extern const SnapKvPolicy kSnapKvPolicy;

}  // namespace swiftkv
