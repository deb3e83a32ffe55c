// SPDX-License-Identifier: Apache-2.0
// Checks and reads the parameters of eviction policies.
#pragma once

#include <span>

#include "policy/eviction_policy.h"

namespace swiftkv {

// One parameter that a policy takes; every parameter has a default.
struct ParameterSpec {
  const char* name;
  double default_value;
  double least;
  double most;
  bool whole;  // a whole number
};

// Errors: InvalidArgument for a parameter that `specs` does not name, or a value out of range.
Status CheckParameters(const char* policy, std::span<const ParameterSpec> specs,
                       const PolicyParameters& parameters);

// Returns the parameter's value, or its default.
double ParameterValue(const ParameterSpec& spec, const PolicyParameters& parameters);

}  // namespace swiftkv
