// SPDX-License-Identifier: Apache-2.0
// Stores rotated rows as integers from -127 to 127 times a scale per token and head, biased by 128:
// the unsigned operand of the byte dot-product instructions.
#include "formats/int8_codec.h"

#include "formats/row_quantization.h"

namespace swiftkv {
namespace {

constexpr int kLargestCode = 127;
constexpr int kBias = 128;

constexpr FormatInfo kInfo = {
    .name = "int8",
    .description = "8-bit integers with a scale per token and head: near, the default to compress",
    .id = FormatId::kInt8,
    .quality = Quality::kNear,
    .bits_per_value = 8,
    .has_scales = true,
    .rotated = true,
};

std::uint16_t ScaleOf(const float* row, std::size_t dim) {
  return ScaleAtLeast(HostRowQuantization().max_abs(row, dim) / kLargestCode);
}

std::uint16_t EncodeRow(const float* row, std::size_t dim, std::uint8_t* codes) {
  const std::uint16_t scale = ScaleOf(row, dim);
  HostRowQuantization().to_int8(row, FactorOf(scale), codes, dim);
  return scale;
}

void EncodeGuided(GuidedRows rows, std::uint16_t* scales) {
  float factors[kPageTokens];
  for (std::size_t t = 0; t < rows.count; ++t) {
    scales[t] = ScaleOf(rows.rows + t * rows.row_stride, rows.dim);
    factors[t] = FactorOf(scales[t]);
  }
  rows.factors = factors;
  HostGuidedRounding().to_int8(rows);
}

void DecodeRow(const std::uint8_t* codes, float scale, std::size_t dim, float* row) {
  for (std::size_t c = 0; c < dim; ++c) row[c] = static_cast<float>(codes[c] - kBias) * scale;
}

constexpr RowCoding kCoding = {EncodeRow, EncodeGuided, DecodeRow};

}  // namespace

constinit const ScaledCodec kInt8Codec(&kInfo, &kCoding, &kQuadCodes);

}  // namespace swiftkv
