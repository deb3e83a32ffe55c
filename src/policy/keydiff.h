// SPDX-License-Identifier: Apache-2.0
// Declares the policy `keydiff`: keep the keys that are least like the others.
#pragma once

#include "policy/eviction_policy.h"

namespace swiftkv {

// No parameters. Scores are in [-1, 1].
class KeyDiffPolicy final : public EvictionPolicy {
 public:
  const PolicyInfo& info() const override;
  Status Validate(const PolicyParameters& parameters) const override;
  void Score(const ScoreInputs& inputs, const PolicyParameters& parameters,
             std::span<float> scores) const override;
};

extern const KeyDiffPolicy kKeyDiffPolicy;

}  // namespace swiftkv
