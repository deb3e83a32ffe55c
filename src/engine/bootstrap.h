// SPDX-License-Identifier: Apache-2.0
// Says how far a measured mean may be from the truth, by resampling what was measured. Layer:
// engine.
//
// A unit is what is drawn as a whole: neighbouring positions of a text resemble one another, so a
// unit is a block of them, or one planted fact, never a single position. Draws are seeded: the same
// figures give the same interval on every machine. Paired figures are drawn together, so that what
// both have in common (an easy text, a hard fact) is in no interval of their difference.
// Paper: Efron, "Bootstrap Methods: Another Look at the Jackknife" (1979), percentile intervals.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace swiftkv {

// Sum of a figure over the samples of a unit; its mean over units is sum of sums / sum of counts.
struct ResampledUnit {
  double sum = 0;
  double count = 0;
};

struct Interval {
  double value = 0;  // of all units as they are
  double low = 0;    // 95 % of the draws lie between `low` and `high`
  double high = 0;
};

struct BootstrapSettings {
  int draws = 2000;
  std::uint64_t seed = 1;
};

// Returns the mean over all units; all zero where there are no samples. Infinite sums give an
// infinite mean.
Interval BootstrapMean(std::span<const ResampledUnit> units, const BootstrapSettings& settings);

// Returns the mean of `a` less that of `b`, whose units are of the same samples in the same order.
Interval BootstrapDifference(std::span<const ResampledUnit> a, std::span<const ResampledUnit> b,
                             const BootstrapSettings& settings);

// Returns what a fraction `quantile` in (0, 1] of all samples does not pass (nearest rank), with
// units of samples drawn whole.
Interval BootstrapQuantile(std::span<const std::vector<double>> units, double quantile,
                           const BootstrapSettings& settings);

}  // namespace swiftkv
