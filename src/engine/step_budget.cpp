// SPDX-License-Identifier: Apache-2.0
// Implements the bound.
#include "engine/step_budget.h"

#include <algorithm>

#include "swiftkv/page_view.h"

namespace swiftkv {
namespace {

constexpr double kAimedSeconds = 0.75 * kStallSeconds;
// Fewer rows say little of what a row of a long step takes.
constexpr int kTellingRows = 2 * kPageTokens;

}  // namespace

int StepBudget::Rows(bool streams) const {
  if (!streams) return most_rows_;
  const int least = std::min(most_rows_, kPageTokens);
  if (row_seconds_ == 0) return std::max(least, most_rows_ / 4);
  const double rows = std::min(kAimedSeconds / row_seconds_, static_cast<double>(most_rows_));
  return std::max(least, static_cast<int>(rows));
}

void StepBudget::Learn(int rows, double seconds) {
  if (rows >= std::min(kTellingRows, most_rows_)) row_seconds_ = seconds / rows;
}

}  // namespace swiftkv
