// SPDX-License-Identifier: Apache-2.0
// Draws log-normal lengths from a generator that the C++ standard fixes to the bit.
#include "tools/bench_lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>
#include <random>
#include <string_view>

#include "tools/printable_text.h"

namespace swiftkv {
namespace {

struct NamedLengths {
  const char* name;
  double mean_prompt;
  double mean_output;
};

constexpr double kSigma = 0.8;
constexpr std::array<NamedLengths, 2> kNamedLengths = {{
    {"sharegpt", 161, 338},
    {"alpaca", 19, 58},
}};
constexpr std::string_view kFixed = "fixed:";

// Box and Muller's transform: std::normal_distribution differs between libraries.
class NormalDraws {
 public:
  explicit NormalDraws(std::uint64_t seed) : random_(seed) {}

  double Next() {
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  // In (0, 1].
  double Uniform() { return std::ldexp(static_cast<double>((random_() >> 11) + 1), -53); }

  std::mt19937_64 random_;
};

int DrawTokens(double mean, double sigma, NormalDraws* normal) {
  const double tokens = std::exp(std::log(mean) - sigma * sigma / 2 + sigma * normal->Next());
  return static_cast<int>(std::clamp(std::round(tokens), 1.0, double{kMostRequestTokens}));
}

}  // namespace

std::string LengthNames() {
  std::string names;
  for (const NamedLengths& row : kNamedLengths) names += fmt::format("{}, ", row.name);
  return fmt::format("{}{}N with N from 2 to {}", names, kFixed, kMostRequestTokens);
}

Result<LengthDistribution> FindLengths(const std::string& name) {
  for (const NamedLengths& row : kNamedLengths) {
    if (name == row.name) return LengthDistribution{name, row.mean_prompt, row.mean_output, kSigma};
  }
  if (name.starts_with(kFixed)) {
    int tokens = 0;
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + kFixed.size(), end, tokens);
    if (parsed.ec == std::errc() && parsed.ptr == end && tokens >= 2 &&
        tokens <= kMostRequestTokens) {
      const int prompt = (tokens + 1) / 2;
      return LengthDistribution{name, double(prompt), double(tokens - prompt), 0};
    }
  }
  return Status::InvalidArgument(fmt::format("lengths of requests are one of {}, not: {}",
                                             LengthNames(), PrintableExcerpt(name, 60)));
}

std::vector<RequestLengths> DrawLengths(const LengthDistribution& distribution, int count,
                                        std::uint64_t seed) {
  NormalDraws normal(seed);
  std::vector<RequestLengths> requests(static_cast<std::size_t>(count));
  for (RequestLengths& request : requests) {
    request.prompt = DrawTokens(distribution.mean_prompt, distribution.sigma, &normal);
    request.output = DrawTokens(distribution.mean_output, distribution.sigma, &normal);
    request.prompt = std::min(request.prompt, kMostRequestTokens - 1);
    request.output = std::min(request.output, kMostRequestTokens - request.prompt);
  }
  return requests;
}

}  // namespace swiftkv
