// SPDX-License-Identifier: Apache-2.0
// Stores rotated rows as 8-bit floats with a scale that puts the row's largest magnitude at the
// largest finite code: nothing overflows, and what is small keeps its own exponent.
#include "formats/fp8_codecs.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/fp8.h"
#include "base/half.h"
#include "formats/row_quantization.h"
#include "formats/slot_transpose.h"

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

// Where a row's values lie between powers of two decides how well they are rounded: under a guide,
// of scales within one octave the one that costs least is taken.
constexpr std::size_t kScalesTried = 16;

template <class Format>
float BestScale(const float* row, const std::uint8_t* codes, std::size_t dim) {
  double product = 0;
  double square = 0;
  for (std::size_t c = 0; c < dim; ++c) {
    const auto level = static_cast<double>(Format::ToFloat(codes[c]));
    product += static_cast<double>(row[c]) * level;
    square += level * level;
  }
  return square == 0 ? 0.0F : static_cast<float>(product / square);
}

using Steps = std::array<float, kScalesTried>;

// What scales of one octave are multiples of.
Steps MakeSteps() {
  Steps steps;
  for (std::size_t i = 0; i < kScalesTried; ++i) {
    steps[i] = std::exp2(static_cast<float>(i) / static_cast<float>(kScalesTried));
  }
  return steps;
}

// Fills the scales that a row may get and what it is multiplied by for each.
void ScalesToTry(float smallest, float* scales, float* factors) {
  static const Steps steps = MakeSteps();
  for (std::size_t i = 0; i < kScalesTried; ++i) {
    scales[i] = HalfToFloat(ScaleAtLeast(smallest * steps[i]));
    factors[i] = scales[i] == 0 ? 0.0F : 1.0F / scales[i];
  }
}

template <class Format, RoundGuided GuidedRounding::*kRound>
void EncodeGuided(GuidedRows rows, std::uint16_t* scales) {
  float tried[kPageTokens * kScalesTried];
  float tried_factors[kPageTokens * kScalesTried];
  float costs[kPageTokens * kScalesTried];
  for (std::size_t t = 0; t < rows.count; ++t) {
    const float largest = HostRowQuantization().max_abs(rows.rows + t * rows.row_stride, rows.dim);
    ScalesToTry(largest / Format::kMax, tried + t * kScalesTried, tried_factors + t * kScalesTried);
  }
  GuidedRows tries = rows;
  tries.tries = kScalesTried;
  tries.factors = tried_factors;
  tries.costs = costs;
  tries.codes = nullptr;
  (HostGuidedRounding().*kRound)(tries);
  float factors[kPageTokens];
  for (std::size_t t = 0; t < rows.count; ++t) {
    const std::size_t first = t * kScalesTried;
    const auto cost = [&](std::size_t i) { return costs[i] * tried[i] * tried[i]; };
    std::size_t best = first;
    for (std::size_t i = first; i < first + kScalesTried; ++i)
      best = cost(i) < cost(best) ? i : best;
    factors[t] = tried_factors[best];
  }
  rows.factors = factors;
  (HostGuidedRounding().*kRound)(rows);
  for (std::size_t t = 0; t < rows.count; ++t) {
    scales[t] = FloatToHalfSaturated(
        BestScale<Format>(rows.rows + t * rows.row_stride, rows.codes + t * rows.dim, rows.dim));
  }
}

template <class Format>
void DecodeRow(const std::uint8_t* codes, float scale, std::size_t dim, float* row) {
  for (std::size_t c = 0; c < dim; ++c) row[c] = Format::ToFloat(codes[c]) * scale;
}

constexpr RowCoding kE4m3Coding = {EncodeRow<Fp8E4m3, &RowQuantization::to_e4m3>,
                                   EncodeGuided<Fp8E4m3, &GuidedRounding::to_e4m3>,
                                   DecodeRow<Fp8E4m3>};
constexpr RowCoding kE5m2Coding = {EncodeRow<Fp8E5m2, &RowQuantization::to_e5m2>,
                                   EncodeGuided<Fp8E5m2, &GuidedRounding::to_e5m2>,
                                   DecodeRow<Fp8E5m2>};

}  // namespace

constinit const ScaledCodec kFp8E4m3Codec(&kE4m3Info, &kE4m3Coding, &kQuadCodes);
constinit const ScaledCodec kFp8E5m2Codec(&kE5m2Info, &kE5m2Coding, &kQuadCodes);

}  // namespace swiftkv
