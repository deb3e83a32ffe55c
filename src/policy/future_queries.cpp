// SPDX-License-Identifier: Apache-2.0
// Averages rotations in closed form: a geometric sum for each pair, whatever the horizon.
#include "policy/future_queries.h"

#include <cmath>

#include "base/check.h"

namespace swiftkv {

MeanRotation::MeanRotation(const RopeRotation& rope, std::int64_t first, std::int64_t horizon) {
  SKV_CHECK(horizon >= 1);
  const std::size_t half = rope.frequencies.size();
  const auto count = static_cast<double>(horizon);
  const double middle = static_cast<double>(first) + (count - 1) / 2;
  for (std::size_t i = 0; i < half; ++i) {
    // The mean of exp(i w p) over `count` positions is exp(i w middle) times their coherence.
    const auto frequency = static_cast<double>(rope.frequencies[i]);
    const double step = std::sin(frequency / 2);
    constexpr double kNoTurn = 1e-12;
    const double coherence =
        std::abs(step) < kNoTurn ? 1.0 : std::sin(count * frequency / 2) / (count * step);
    const double length = coherence * static_cast<double>(rope.magnitude);
    const bool split = rope.pairs == RopePairs::kSplitHalf;
    pairs_.push_back({.low = split ? i : 2 * i,
                      .high = split ? i + half : 2 * i + 1,
                      .cosine = static_cast<float>(length * std::cos(frequency * middle)),
                      .sine = static_cast<float>(length * std::sin(frequency * middle))});
  }
}

void MeanRotation::TurnRow(std::span<float> row) const {
  for (const Pair& pair : pairs_) {
    const float a = row[pair.low];
    const float b = row[pair.high];
    row[pair.low] = pair.cosine * a - pair.sine * b;
    row[pair.high] = pair.sine * a + pair.cosine * b;
  }
}

void MeanRotation::TurnMatrix(std::span<float> matrix, std::size_t dim) const {
  for (std::size_t row = 0; row < dim; ++row) TurnRow(matrix.subspan(row * dim, dim));
  for (const Pair& pair : pairs_) {
    float* const low = matrix.data() + pair.low * dim;
    float* const high = matrix.data() + pair.high * dim;
    for (std::size_t column = 0; column < dim; ++column) {
      const float a = low[column];
      const float b = high[column];
      low[column] = pair.cosine * a - pair.sine * b;
      high[column] = pair.sine * a + pair.cosine * b;
    }
  }
}

}  // namespace swiftkv
