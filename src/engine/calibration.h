// SPDX-License-Identifier: Apache-2.0
// Holds what is known of the loss of page formats on one model, and draws the conclusions. Layer:
// engine.
//
// Plain data and pure rules: where figures are kept and who measures them is the caller's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/quality_evaluation.h"
#include "swiftkv/page_layout.h"
#include "swiftkv/quality.h"

namespace swiftkv {

// A format below this mean KLD is chosen without asking; one above it is used with a warning.
inline constexpr double kFineMeanKld = 0.01;
// A format above this mean KLD must be insisted on.
inline constexpr double kRuinedMeanKld = 0.1;

// Which weights the figures were measured with.
enum class MeasuredWeights {
  kF16,   // rewritten, or F16 or F32 to begin with: nothing hides the cache's loss
  kAsIs,  // as the file has them: a noise floor lies under every figure
};

// Returns "f16" or "asis".
const char* MeasuredWeightsName(MeasuredWeights weights);

struct Calibration {
  std::string text_sha256;  // of the text that was measured on
  int context = 0;          // tokens of a window
  int chunk = 0;            // tokens of a step
  MeasuredWeights weights = MeasuredWeights::kF16;
  double noise_floor = 0;  // mean KLD of f16, which loses next to nothing itself
  std::vector<FormatQuality> rows;

  // Returns the row of that name, or null.
  const FormatQuality* Find(std::string_view format) const;
};

// Returns the mean KLD that the format itself is to blame for: less the noise floor, where the
// weights' rounding makes one.
double FormatLoss(const Calibration& calibration, const FormatQuality& row);

enum class LossVerdict {
  kFine,     // nothing to say
  kUnknown,  // not measured on this model
  kLossy,    // above kFineMeanKld
  kRuined,   // above kRuinedMeanKld, or not a number
};

// Judges a format by the figures, null where there are none. Formats of 16 bits and more are always
// fine.
LossVerdict JudgeFormat(const PageFormat& format, const Calibration* calibration);

// Returns the row with the fewest bytes among named formats whose loss is below kFineMeanKld and
// whose grade `ceiling` allows, of equal ones the one with less loss; null where there is none.
const FormatQuality* SmallestFineFormat(const Calibration& calibration, Quality ceiling);

// Puts `rows` in, over older ones of the same formats.
void MergeRows(const std::vector<FormatQuality>& rows, Calibration* calibration);

}  // namespace swiftkv
