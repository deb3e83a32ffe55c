// SPDX-License-Identifier: Apache-2.0
// Stores rotated rows as 8-bit floats with a scale that puts the row's largest magnitude at the
// largest finite code: nothing overflows, and what is small keeps its own exponent.
#include "formats/fp8_codecs.h"

#include "base/fp8.h"
#include "formats/row_quantization.h"

namespace swiftkv {
namespace {

constexpr FormatInfo kE4m3Info = {
    .name = "fp8_e4m3",
    .description = "8-bit floats with 3 bits of mantissa and a scale per token and head: near",
    .id = FormatId::kFp8E4m3,
    .quality = Quality::kNear,
    .bits_per_value = 8,
    .has_scales = true,
    .rotated = true,
};

constexpr FormatInfo kE5m2Info = {
    .name = "fp8_e5m2",
    .description = "8-bit floats with 2 bits of mantissa and a scale per token and head: near",
    .id = FormatId::kFp8E5m2,
    .quality = Quality::kNear,
    .bits_per_value = 8,
    .has_scales = true,
    .rotated = true,
};

using Quantize = void (*RowQuantization::*)(const float*, float, std::uint8_t*, std::size_t);

template <class Format, Quantize kQuantize>
std::uint16_t EncodeRow(const float* row, std::size_t dim, std::uint8_t* codes) {
  const RowQuantization& quantization = HostRowQuantization();
  const std::uint16_t scale = ScaleAtLeast(quantization.max_abs(row, dim) / Format::kMax);
  (quantization.*kQuantize)(row, FactorOf(scale), codes, dim);
  return scale;
}

template <class Format>
void DecodeRow(const std::uint8_t* codes, float scale, std::size_t dim, float* row) {
  for (std::size_t c = 0; c < dim; ++c) row[c] = Format::ToFloat(codes[c]) * scale;
}

constexpr RowCoding kE4m3Coding = {EncodeRow<Fp8E4m3, &RowQuantization::to_e4m3>,
                                   DecodeRow<Fp8E4m3>};
constexpr RowCoding kE5m2Coding = {EncodeRow<Fp8E5m2, &RowQuantization::to_e5m2>,
                                   DecodeRow<Fp8E5m2>};

}  // namespace

constinit const ScaledCodec kFp8E4m3Codec(&kE4m3Info, &kE4m3Coding, &kQuadCodes);
constinit const ScaledCodec kFp8E5m2Codec(&kE5m2Info, &kE5m2Coding, &kQuadCodes);

}  // namespace swiftkv
