// SPDX-License-Identifier: Apache-2.0
// Holds the table of ways to divide a budget.
#include "policy/budget_split.h"

#include <array>
#include <string>

namespace swiftkv {
namespace {

constexpr std::array<BudgetSplitInfo, 4> kSplits = {{
    {BudgetSplit::kUniform, "uniform", "every head keeps as many tokens", "none"},
    {BudgetSplit::kPyramid, "pyramid", "layers keep fewer tokens from the first to the last",
     "PyramidKV: Dynamic KV Cache Compression based on Pyramidal Information Funneling (2024)"},
    {BudgetSplit::kAda, "ada", "heads of a layer compete for its tokens by score",
     "Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget Allocation (2024)"},
    {BudgetSplit::kGlobal, "global", "all heads of all layers compete by normalised score", "none"},
}};

}  // namespace

std::span<const BudgetSplitInfo> AllBudgetSplits() { return kSplits; }

Result<BudgetSplit> FindBudgetSplit(std::string_view name) {
  std::string names;
  for (const BudgetSplitInfo& info : kSplits) {
    if (name == info.name) return info.split;
    names += (names.empty() ? "" : ", ") + std::string(info.name);
  }
  return Status::InvalidArgument("a budget is split by one of " + names +
                                 ", not: " + std::string(name));
}

}  // namespace swiftkv
