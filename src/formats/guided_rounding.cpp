// SPDX-License-Identifier: Apache-2.0
// Takes eight rows at a time where there are as many: the channels of one row wait for one another.
#include "formats/guided_rounding.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/fp8.h"
#include "formats/row_quantization.h"
#include "formats/slot_transpose.h"

namespace swiftkv {
namespace {

// What a value becomes: its code, and the number that the code stands for. Each Round is free of
// branches, so that a loop over rows becomes vectors.
struct Rounded {
  float level;
  std::uint32_t code;
};

struct Int8Grid {
  [[gnu::always_inline]] static Rounded Round(float value) {
    constexpr float kLargest = 127.0F;
    constexpr float kToEven = 0x1.8p23F;  // adding it leaves no bits below the point
    const float cut = std::min(std::max(value, -kLargest), kLargest);
    const float sum = cut + kToEven;
    return {sum - kToEven, (std::bit_cast<std::uint32_t>(sum) + 128U) & 0xFFU};
  }
};

struct Int4Grid {
  [[gnu::always_inline]] static Rounded Round(float value) {
    const float magnitude = std::fabs(value);
    auto level = static_cast<float>(kInt4Levels[8]);
    std::uint32_t steps = 0;
    for (std::size_t k = 0; k < std::size(kInt4Borders); ++k) {
      const bool beyond = magnitude >= kInt4Borders[k];
      level = beyond ? static_cast<float>(kInt4Levels[9 + k]) : level;
      steps += beyond ? 1U : 0U;
    }
    const bool negative = std::bit_cast<std::uint32_t>(value) >> 31 != 0;
    return {negative ? -level : level, negative ? 7U - steps : 8U + steps};
  }
};

template <class Format>
struct Fp8Grid {
  [[gnu::always_inline]] static Rounded Round(float value) {
    constexpr std::uint32_t kBelow = (1U << Format::kShift) - 1U;
    const std::uint32_t sign = std::bit_cast<std::uint32_t>(value) & 0x80000000U;
    const std::uint32_t bits =
        std::bit_cast<std::uint32_t>(std::min(std::fabs(value), Format::kMax));
    const std::uint32_t odd = (bits >> Format::kShift) & 1U;
    const std::uint32_t normal = (bits + (kBelow >> 1) + odd) & ~kBelow;
    const std::uint32_t small = bits > Format::kHalfSmallest ? Format::kSmallestNormal : 0U;
    const std::uint32_t level = bits < Format::kSmallestNormal ? small : normal;
    const std::uint32_t code = level == 0 ? 0U : (level >> Format::kShift) - Format::kRebias;
    return {std::bit_cast<float>(level | sign), code | (sign >> 24)};
  }
};

// Rounds rows [first, first + kRows).
template <class Grid, std::size_t kRows>
void RoundRows(const GuidedRows& rows, std::size_t first) {
  alignas(64) float scaled[kMostChannels * kRows];   // [dim, kRows]
  alignas(64) float targets[kMostChannels * kRows];  // with the errors so far made up for
  for (std::size_t t = 0; t < kRows; ++t) {
    const float* const row = rows.rows + (first + t) * rows.row_stride;
    const float factor = rows.factors[first + t];
    for (std::size_t i = 0; i < rows.dim; ++i) scaled[i * kRows + t] = row[i] * factor;
  }
  std::copy_n(scaled, rows.dim * kRows, targets);
  float costs[kRows] = {};
  for (std::size_t i = 0; i < rows.dim; ++i) {
    const float* const spread = rows.guide->spread.data() + i * rows.dim;
    const float weight = rows.guide->weights[i];
    float errors[kRows];
    std::uint32_t codes[kRows];
    for (std::size_t t = 0; t < kRows; ++t) {
      const float target = targets[i * kRows + t];
      const Rounded rounded = Grid::Round(target);
      const float cut_off = target - rounded.level;
      costs[t] += weight * cut_off * cut_off;
      errors[t] = scaled[i * kRows + t] - rounded.level;
      codes[t] = rounded.code;
    }
    for (std::size_t t = 0; t < kRows; ++t) {
      rows.codes[(first + t) * rows.dim + i] = static_cast<std::uint8_t>(codes[t]);
    }
    for (std::size_t j = i + 1; j < rows.dim; ++j) {
      for (std::size_t t = 0; t < kRows; ++t) targets[j * kRows + t] += errors[t] * spread[j];
    }
  }
  std::copy_n(costs, kRows, rows.costs + first);
}

template <class Grid>
void RoundAll(const GuidedRows& rows) {
  constexpr std::size_t kTogether = 8;
  SKV_CHECK(rows.dim <= kMostChannels && rows.guide->weights.size() == rows.dim);
  std::size_t done = 0;
  for (; done + kTogether <= rows.count; done += kTogether) RoundRows<Grid, kTogether>(rows, done);
  for (; done < rows.count; ++done) RoundRows<Grid, 1>(rows, done);
}

}  // namespace

void RoundGuidedToInt8(const GuidedRows& rows) { RoundAll<Int8Grid>(rows); }
void RoundGuidedToInt4(const GuidedRows& rows) { RoundAll<Int4Grid>(rows); }
void RoundGuidedToE4m3(const GuidedRows& rows) { RoundAll<Fp8Grid<Fp8E4m3>>(rows); }
void RoundGuidedToE5m2(const GuidedRows& rows) { RoundAll<Fp8Grid<Fp8E5m2>>(rows); }

}  // namespace swiftkv
