// SPDX-License-Identifier: Apache-2.0
// Implements the bound.
#include "engine/step_budget.h"

#include <algorithm>
#include <bit>

#include "model/language_model.h"
#include "swiftkv/page_view.h"

namespace swiftkv {
namespace {

// Below the bound there is room for what a guess is wrong by.
constexpr double kAimedSeconds = 0.7 * kStallSeconds;

// Rounds down to an eighth of the power of two below, in whole blocks.
int CoarseRows(int rows) {
  const auto eighth = static_cast<int>(std::bit_floor(static_cast<unsigned>(rows)) / 8);
  const int step = std::max(kPageTokens, eighth);
  return rows / step * step;
}

}  // namespace

int StepBudget::PromptRows(bool streams) const {
  if (!streams) return most_rows_;
  const int least = std::min(most_rows_, kPageTokens);
  if (!row_seconds_) return std::max(least, most_rows_ / 4);
  const double seconds = std::max(kAimedSeconds - stream_seconds_, stream_seconds_);
  if (*row_seconds_ * most_rows_ <= seconds) return most_rows_;
  return std::max(least, CoarseRows(static_cast<int>(seconds / *row_seconds_)));
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
