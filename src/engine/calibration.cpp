// SPDX-License-Identifier: Apache-2.0
// Judges formats by their measured loss.
#include "engine/calibration.h"

#include <algorithm>
#include <utility>

#include "formats/page_format_table.h"

namespace swiftkv {
namespace {

bool IsWide(const PageFormat& format) {
  constexpr double kWideBits = 16;
  return format.key->info().bits_per_value >= kWideBits &&
         format.value->info().bits_per_value >= kWideBits;
}

}  // namespace

const char* MeasuredWeightsName(MeasuredWeights weights) {
  return weights == MeasuredWeights::kF16 ? "f16" : "asis";
}

const FormatQuality* Calibration::Find(std::string_view format) const {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const FormatQuality& row) { return row.format == format; });
  return found == rows.end() ? nullptr : &*found;
}

double FormatLoss(const Calibration& calibration, const FormatQuality& row) {
  if (calibration.weights == MeasuredWeights::kF16) return row.loss.mean_kld;
  return std::max(0.0, row.loss.mean_kld - calibration.noise_floor);
}

LossVerdict JudgeFormat(const PageFormat& format, const Calibration* calibration) {
  if (IsWide(format)) return LossVerdict::kFine;
  const FormatQuality* row =
      calibration == nullptr ? nullptr : calibration->Find(PageFormatName(format));
  if (row == nullptr) return LossVerdict::kUnknown;
  const double loss = FormatLoss(*calibration, *row);
  if (loss <= kFineMeanKld) return LossVerdict::kFine;
  return loss <= kRuinedMeanKld ? LossVerdict::kLossy : LossVerdict::kRuined;
}

const FormatQuality* SmallestFineFormat(const Calibration& calibration, Quality ceiling) {
  const FormatQuality* best = nullptr;
  for (const FormatQuality& row : calibration.rows) {
    const Result<PageFormat> format = FindPageFormat(row.format);
    if (!format.ok() || !Serves(PageFormatQuality(*format), ceiling)) continue;
    if (!(FormatLoss(calibration, row) < kFineMeanKld)) continue;
    const bool better =
        best == nullptr || row.bytes < best->bytes ||
        (row.bytes == best->bytes && FormatLoss(calibration, row) < FormatLoss(calibration, *best));
    if (better) best = &row;
  }
  return best;
}

void MergeRows(const std::vector<FormatQuality>& rows, Calibration* calibration) {
  for (const FormatQuality& row : rows) {
    const auto old =
        std::find_if(calibration->rows.begin(), calibration->rows.end(),
                     [&](const FormatQuality& other) { return other.format == row.format; });
    if (old == calibration->rows.end()) {
      calibration->rows.push_back(row);
    } else {
      *old = row;
    }
  }
}

}  // namespace swiftkv
