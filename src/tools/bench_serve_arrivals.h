// SPDX-License-Identifier: Apache-2.0
// Draws when requests arrive, from a generator that the C++ standard fixes to the bit.
#pragma once

#include <cstdint>
#include <random>

namespace swiftkv {

// Gaps follow a gamma distribution of mean 1 / rate: with burstiness 1 arrivals are a Poisson
// process, below it they come in bursts, above it more evenly.
class ArrivalDraws {
 public:
  // `rate` a second and `burstiness` are above 0.
  ArrivalDraws(double rate, double burstiness, std::uint64_t seed);

  // Returns the seconds from one arrival to the next.
  double NextGap();

 private:
  double Uniform();  // in (0, 1]
  double Normal();
  // Of scale 1 (Marsaglia and Tsang, "A simple method for generating gamma variables", 2000).
  double Gamma(double shape);

  double rate_;
  double burstiness_;
  std::mt19937_64 random_;
};

}  // namespace swiftkv
