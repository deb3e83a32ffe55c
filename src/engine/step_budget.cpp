// SPDX-License-Identifier: Apache-2.0
// Implements the bound.
#include "engine/step_budget.h"

#include <algorithm>

#include "model/language_model.h"
#include "swiftkv/page_view.h"

namespace swiftkv {
namespace {

// Below the bound there is room for what a guess is wrong by.
constexpr double kAimedSeconds = 0.75 * kStallSeconds;

}  // namespace

int StepBudget::PromptRows(bool streams) const {
  if (!streams) return most_rows_;
  const int least = std::min(most_rows_, kPageTokens);
  if (!row_seconds_) return std::max(least, most_rows_ / 4);
  const double seconds = std::max(kAimedSeconds - stream_seconds_, stream_seconds_);
  const double most = most_rows_;
  const double rows = *row_seconds_ * most <= seconds ? most : seconds / *row_seconds_;
  return std::max(least, static_cast<int>(rows));
}

void StepBudget::Learn(bool streams, int prompt_rows, double seconds) {
  if (prompt_rows == 0) {
    stream_seconds_ = seconds;
  } else {
    const double own = std::max(0.0, seconds - (streams ? stream_seconds_ : 0));
    row_seconds_ = own / prompt_rows;
  }
}

}  // namespace swiftkv
