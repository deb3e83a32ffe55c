// SPDX-License-Identifier: Apache-2.0
// Reads policies and budgets as flags and requests name them, and writes them in one way only.
//
// The canonical text is part of a compressed prefix's key: whatever gives other pages gives another
// text, and equal settings give one text however they were written.
#pragma once

#include <string>
#include <string_view>

#include "policy/budget_settings.h"
#include "policy/eviction_policy.h"

namespace swiftkv {

struct PolicyChoice {
  const EvictionPolicy* policy = nullptr;
  PolicyParameters parameters;  // those that were named
};

// Reads "NAME" or "NAME:key=value,...". Errors: InvalidArgument for an unknown name or parameter, a
// value out of range or that is no number, a parameter named twice.
Result<PolicyChoice> ParsePolicy(std::string_view text);

// Reads "4096", "4096tokens" or "64MiB" (base/byte_size.h) into unit and amount. Errors:
// InvalidArgument.
Status ParseBudgetAmount(std::string_view text, BudgetSettings* settings);

// Returns the name and all parameters in the order of their names, defaults included:
// "snapkv:pool=5,window=64".
std::string CanonicalPolicy(const PolicyChoice& choice);

// Returns all settings that decide what is kept: "ratio=0.5,split=ada,floor=0.2,...".
std::string CanonicalBudget(const BudgetSettings& settings);

}  // namespace swiftkv
