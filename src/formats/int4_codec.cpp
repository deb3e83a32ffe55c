// SPDX-License-Identifier: Apache-2.0
// Stores rotated rows as 4-bit codes of the 16 levels that lose least of a normal distribution.
//
// A rotated row is close to normally distributed, whatever outliers the row had. The scale starts
// from the row's standard deviation and is then fitted by least squares to the chosen levels, with
// the codes chosen again.
#include "formats/int4_codec.h"

#include <algorithm>
#include <cmath>

#include "base/half.h"
#include "formats/row_quantization.h"

namespace swiftkv {
namespace {

constexpr float kLargestLevel = 127.0F;
constexpr float kLargestHalf = 65504.0F;

constexpr FormatInfo kInfo = {
    .name = "int4",
    .description =
        "4-bit codes of rotated rows with a scale per token and head: any, for 7B and up",
    .id = FormatId::kInt4,
    .quality = Quality::kAny,
    .bits_per_value = 4,
    .has_scales = true,
    .rotated = true,
};

// Returns a scale that f16 holds: the row over it stays within f16's range of scales.
std::uint16_t HalfScale(float scale) { return FloatToHalf(std::min(scale, kLargestHalf)); }

std::uint16_t EncodeRow(const float* row, std::size_t dim, std::uint8_t* codes) {
  const RowQuantization& quantization = HostRowQuantization();
  const double square = quantization.sum_of_squares(row, dim);
  const auto deviation = static_cast<float>(std::sqrt(square / static_cast<double>(dim)));
  const std::uint16_t first = HalfScale(deviation * (kInt4Largest / kLargestLevel));
  quantization.to_int4(row, FactorOf(first), codes, dim);
  const std::uint16_t fitted = HalfScale(quantization.fit_int4(row, codes, dim));
  quantization.to_int4(row, FactorOf(fitted), codes, dim);
  return fitted;
}

// Codes are for the scale of rows rounded without a guide; then the scale that is best for them is
// taken.
void EncodeGuided(GuidedRows rows, std::uint16_t* scales) {
  float factors[kPageTokens];
  for (std::size_t t = 0; t < rows.count; ++t) {
    scales[t] = EncodeRow(rows.rows + t * rows.row_stride, rows.dim, rows.codes + t * rows.dim);
    factors[t] = FactorOf(scales[t]);
  }
  rows.factors = factors;
  HostGuidedRounding().to_int4(rows);
  for (std::size_t t = 0; t < rows.count; ++t) {
    scales[t] = HalfScale(HostRowQuantization().fit_int4(rows.rows + t * rows.row_stride,
                                                         rows.codes + t * rows.dim, rows.dim));
  }
}

void DecodeRow(const std::uint8_t* codes, float scale, std::size_t dim, float* row) {
  for (std::size_t c = 0; c < dim; ++c) row[c] = static_cast<float>(kInt4Levels[codes[c]]) * scale;
}

constexpr RowCoding kCoding = {EncodeRow, EncodeGuided, DecodeRow};

}  // namespace

constinit const ScaledCodec kInt4Codec(&kInfo, &kCoding, &kNibbleCodes);

}  // namespace swiftkv
