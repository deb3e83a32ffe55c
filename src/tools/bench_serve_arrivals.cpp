// SPDX-License-Identifier: Apache-2.0
// Implements the draws by hand: the standard library's distributions differ between libraries.
#include "tools/bench_serve_arrivals.h"

#include <cmath>
#include <numbers>

namespace swiftkv {

ArrivalDraws::ArrivalDraws(double rate, double burstiness, std::uint64_t seed)
    : rate_(rate), burstiness_(burstiness), random_(seed) {}

double ArrivalDraws::NextGap() {
  if (burstiness_ == 1) return -std::log(Uniform()) / rate_;
  return Gamma(burstiness_) / (rate_ * burstiness_);
}

double ArrivalDraws::Uniform() {
  return std::ldexp(static_cast<double>((random_() >> 11) + 1), -53);
}

double ArrivalDraws::Normal() {
  const double radius = std::sqrt(-2 * std::log(Uniform()));
  return radius * std::cos(2 * std::numbers::pi * Uniform());
}

double ArrivalDraws::Gamma(double shape) {
  if (shape < 1) {
    const double larger = Gamma(shape + 1);
    return larger * std::pow(Uniform(), 1 / shape);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = Normal();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(Uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

}  // namespace swiftkv
