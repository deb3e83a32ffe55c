// SPDX-License-Identifier: Apache-2.0
// Draws units with replacement and reads the interval off the sorted draws.
#include "engine/bootstrap.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace swiftkv {
namespace {

constexpr double kOutside = 0.025;  // of the draws, on each side

// SplitMix64 (Steele, Lea, Flood 2014): the same numbers with every library.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}

  // Uniform in [0, count) but for a bias of count / 2^64.
  std::size_t Below(std::size_t count) {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return static_cast<std::size_t>((x ^ (x >> 31)) % count);
  }

 private:
  std::uint64_t state_;
};

double Quotient(double sum, double count) { return count > 0 ? sum / count : 0; }

// Value `value` with the limits that the draws give.
Interval IntervalOf(double value, std::vector<double> draws) {
  Interval interval{.value = value, .low = value, .high = value};
  if (draws.empty()) return interval;
  // Differences of infinities are no numbers; they say nothing about either side.
  std::erase_if(draws, [](double draw) { return std::isnan(draw); });
  if (draws.empty()) return interval;
  std::sort(draws.begin(), draws.end());
  const double last = static_cast<double>(draws.size()) - 1;
  interval.low = draws[static_cast<std::size_t>(std::floor(kOutside * last))];
  interval.high = draws[static_cast<std::size_t>(std::ceil((1 - kOutside) * last))];
  return interval;
}

double MeanOf(std::span<const ResampledUnit> units) {
  double sum = 0;
  double count = 0;
  for (const ResampledUnit& unit : units) {
    sum += unit.sum;
    count += unit.count;
  }
  return Quotient(sum, count);
}

// The value that `quantile` of the samples does not pass; reorders them.
double NearestRank(std::vector<double>* samples, double quantile) {
  if (samples->empty()) return 0;
  const auto count = static_cast<double>(samples->size());
  const auto rank =
      std::max<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(std::ceil(quantile * count)) - 1);
  std::nth_element(samples->begin(), samples->begin() + rank, samples->end());
  return (*samples)[static_cast<std::size_t>(rank)];
}

}  // namespace

Interval BootstrapMean(std::span<const ResampledUnit> units, const BootstrapSettings& settings) {
  const std::vector<ResampledUnit> nothing(units.size());
  return BootstrapDifference(units, nothing, settings);
}

Interval BootstrapDifference(std::span<const ResampledUnit> a, std::span<const ResampledUnit> b,
                             const BootstrapSettings& settings) {
  SKV_CHECK(a.size() == b.size(), "paired figures have the same units");
  std::vector<double> draws;
  Draws random(settings.seed);
  for (int draw = 0; draw < settings.draws && !a.empty(); ++draw) {
    ResampledUnit of_a;
    ResampledUnit of_b;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::size_t drawn = random.Below(a.size());
      of_a.sum += a[drawn].sum;
      of_a.count += a[drawn].count;
      of_b.sum += b[drawn].sum;
      of_b.count += b[drawn].count;
    }
    draws.push_back(Quotient(of_a.sum, of_a.count) - Quotient(of_b.sum, of_b.count));
  }
  return IntervalOf(MeanOf(a) - MeanOf(b), std::move(draws));
}

Interval BootstrapQuantile(std::span<const std::vector<double>> units, double quantile,
                           const BootstrapSettings& settings) {
  std::vector<double> samples;
  for (const std::vector<double>& unit : units) {
    samples.insert(samples.end(), unit.begin(), unit.end());
  }
  const double value = NearestRank(&samples, quantile);
  std::vector<double> draws;
  Draws random(settings.seed);
  for (int draw = 0; draw < settings.draws && !samples.empty(); ++draw) {
    std::vector<double> drawn;
    for (std::size_t i = 0; i < units.size(); ++i) {
      const std::vector<double>& unit = units[random.Below(units.size())];
      drawn.insert(drawn.end(), unit.begin(), unit.end());
    }
    draws.push_back(NearestRank(&drawn, quantile));
  }
  return IntervalOf(value, std::move(draws));
}

}  // namespace swiftkv
