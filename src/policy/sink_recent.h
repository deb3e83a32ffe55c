// SPDX-License-Identifier: Apache-2.0
// Declares the policy `sink_recent`: keep the first tokens and the newest ones.
#pragma once

#include "policy/eviction_policy.h"

namespace swiftkv {

// Parameter: sinks (default 4), the first positions that outlive everything else.
class SinkRecentPolicy final : public EvictionPolicy {
 public:
  const PolicyInfo& info() const override;
  Status Validate(const PolicyParameters& parameters) const override;
  void Score(const ScoreInputs& inputs, const PolicyParameters& parameters,
             std::span<float> scores) const override;
};

extern const SinkRecentPolicy kSinkRecentPolicy;

}  // namespace swiftkv
