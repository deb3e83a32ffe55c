// SPDX-License-Identifier: Apache-2.0
// Says how much of a sequence is kept, and checks that such a thing can be.
//
// What is kept is stated as a ratio (the fraction removed), in tokens, or in bytes. Sinks, the
// newest tokens and layers with a sliding window are spared whatever was asked for, and so are
// sequences that are too short to be worth it.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/budget_split.h"
#include "swiftkv/status.h"

namespace swiftkv {

enum class BudgetUnit : std::uint8_t {
  kRatio,   // the fraction of the bytes that is removed, [0, 1)
  kTokens,  // a head keeps so many on average, sinks and newest included
  kBytes,   // the sequence takes so many, layers with a window included
};

struct BudgetSettings {
  BudgetUnit unit = BudgetUnit::kRatio;
  double ratio = 0;          // with kRatio
  std::uint64_t amount = 0;  // tokens or bytes
  BudgetSplit split = BudgetSplit::kUniform;
  double floor = 0.2;         // kAda, kGlobal: what every head keeps, as a part of an even share
  double steepness = 20;      // kPyramid: an even share over the last layer's
  int sinks = 4;              // first positions, which are kept in the sequence's own format
  int recent = 128;           // newest tokens, which are not looked at
  int shortest_length = 256;  // tokens; shorter sequences stay as they are
  // Parts of the kept tokens in each of the formats offered, the best tokens in the first; they add
  // up to 1. {1} drops and keeps, {0.25, 0.75} keeps a quarter of what is kept in the first format.
  std::vector<double> format_shares = {1.0};
};

// Returns the end of the tokens of a sequence that may be dropped: whole blocks from 0 to the
// newest.
std::int64_t CompressibleEnd(const BudgetSettings& settings, std::int64_t length);

// Returns the least budget in tokens: sinks and newest, each in whole pages, and one page more.
std::int64_t LeastTokens(const BudgetSettings& settings);

// Errors: InvalidArgument for a setting that no sequence could be planned with, the value last.
Status CheckBudget(const BudgetSettings& settings);

}  // namespace swiftkv
