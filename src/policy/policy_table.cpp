// SPDX-License-Identifier: Apache-2.0
// Holds the one table of eviction policies.
#include <array>
#include <string>

#include "policy/eviction_policy.h"
#include "policy/expected_attention.h"
#include "policy/keydiff.h"
#include "policy/random_control.h"
#include "policy/sink_recent.h"
#include "policy/snapkv.h"

namespace swiftkv {
namespace {

constexpr std::array<const EvictionPolicy*, 5> kPolicies = {
    &kSinkRecentPolicy, &kRandomPolicy, &kKeyDiffPolicy, &kExpectedAttentionPolicy, &kSnapKvPolicy,
};

}  // namespace

std::span<const EvictionPolicy* const> AllPolicies() { return kPolicies; }

Result<const EvictionPolicy*> FindPolicy(std::string_view name) {
  std::string names;
  for (const EvictionPolicy* policy : kPolicies) {
    if (name == policy->info().name) return policy;
    names += (names.empty() ? "" : ", ") + std::string(policy->info().name);
  }
  return Status::InvalidArgument("an eviction policy is one of " + names +
                                 ", not: " + std::string(name));
}

}  // namespace swiftkv
