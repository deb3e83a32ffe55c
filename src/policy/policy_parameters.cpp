// SPDX-License-Identifier: Apache-2.0
// Checks parameters by name and range.
#include "policy/policy_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace swiftkv {

Status CheckParameters(const PolicyInfo& policy, const PolicyParameters& parameters) {
  const std::span<const ParameterSpec> specs = policy.parameters;
  for (const auto& parameter : parameters) {
    const std::string& name = parameter.first;
    const double value = parameter.second;
    const auto spec = std::find_if(specs.begin(), specs.end(),
                                   [&](const ParameterSpec& known) { return name == known.name; });
    if (spec == specs.end()) {
      std::string names;
      for (const ParameterSpec& known : specs) {
        names += (names.empty() ? "" : ", ") + std::string(known.name);
      }
      return Status::InvalidArgument(fmt::format("policy {} takes {}, not: {}", policy.name,
                                                 names.empty() ? "no parameters" : names, name));
    }
    const bool in_range = value >= spec->least && value <= spec->most;  // false for NaN
    if (in_range && (!spec->whole || value == std::floor(value))) continue;
    return Status::InvalidArgument(
        fmt::format("{} of policy {} is a {}number from {} to {}, not: {}", name, policy.name,
                    spec->whole ? "whole " : "", spec->least, spec->most, value));
  }
  return Status::Ok();
}

double ParameterValue(const ParameterSpec& spec, const PolicyParameters& parameters) {
  const auto found = parameters.find(spec.name);
  return found == parameters.end() ? spec.default_value : found->second;
}

}  // namespace swiftkv
