// SPDX-License-Identifier: Apache-2.0
// Checks and reads the parameters of eviction policies.
#pragma once

#include "policy/eviction_policy.h"

namespace swiftkv {

// Errors: InvalidArgument for a parameter that the policy does not take, or a value out of range.
Status CheckParameters(const PolicyInfo& policy, const PolicyParameters& parameters);

// Returns the parameter's value, or its default.
double ParameterValue(const ParameterSpec& spec, const PolicyParameters& parameters);

}  // namespace swiftkv
