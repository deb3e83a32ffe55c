// SPDX-License-Identifier: Apache-2.0
// Names the ways to divide what is kept among layers and heads.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "swiftkv/status.h"

namespace swiftkv {

enum class BudgetSplit : std::uint8_t {
  kUniform,  // as many tokens in every head
  kPyramid,  // as many in the heads of a layer, falling from the first layer to the last
  kAda,      // as many in every layer, by score among its heads, with a floor
  kGlobal,   // by score among all heads of all layers, with a floor
};

struct BudgetSplitInfo {
  BudgetSplit split;
  const char* name;         // "ada": the flag's word
  const char* description;  // one line for help and docs
  const char* paper;
};

std::span<const BudgetSplitInfo> AllBudgetSplits();

// Errors: InvalidArgument with the list of names.
Result<BudgetSplit> FindBudgetSplit(std::string_view name);

}  // namespace swiftkv
