// SPDX-License-Identifier: Apache-2.0
// Computes frequencies in double, with the rounding of YaRN's limits that ggml has.
#include "model/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace swiftkv {
namespace {

// The pair that makes `turns` turns within the original context, as a real number.
double PairOfTurns(const RopeSpec& rope, double turns) {
  const double wavelength = rope.original_context / (turns * 2 * std::numbers::pi);
  return rope.dims * std::log(wavelength) / (2 * std::log(static_cast<double>(rope.base)));
}

// How much of a pair's frequency stays unscaled: 1 for the fast pairs, 0 for the slow ones.
double UnscaledPart(const RopeSpec& rope, int pair) {
  if (rope.extrapolation_factor == 0.0F) return 0;
  const double low =
      std::max(0.0, std::floor(PairOfTurns(rope, static_cast<double>(rope.beta_fast))));
  const double high = std::min<double>(
      rope.dims - 1, std::ceil(PairOfTurns(rope, static_cast<double>(rope.beta_slow))));
  constexpr double kLeastRamp = 0.001;
  const double way = (pair - low) / std::max(kLeastRamp, high - low);
  return static_cast<double>(rope.extrapolation_factor) * (1 - std::clamp(way, 0.0, 1.0));
}

}  // namespace

RopeFrequencies FrequenciesOf(const RopeSpec& rope, std::span<const float> factors) {
  const int pairs = rope.dims / 2;
  SKV_CHECK(factors.empty() || factors.size() == static_cast<std::size_t>(pairs));
  RopeFrequencies result;
  result.layout = rope.layout;
  result.magnitude = rope.attention_factor;
  if (rope.extrapolation_factor != 0.0F) {
    result.magnitude *= 1.0F + 0.1F * std::log(1.0F / rope.frequency_scale);
  }
  for (int pair = 0; pair < pairs; ++pair) {
    const double exponent = -2.0 * pair / rope.dims;
    const double factor =
        factors.empty() ? 1.0 : static_cast<double>(factors[static_cast<std::size_t>(pair)]);
    const double unscaled = std::pow(static_cast<double>(rope.base), exponent) / factor;
    const double scaled = unscaled * static_cast<double>(rope.frequency_scale);
    const double part = UnscaledPart(rope, pair);
    result.frequencies.push_back(static_cast<float>(scaled * (1 - part) + unscaled * part));
  }
  return result;
}

}  // namespace swiftkv
