// SPDX-License-Identifier: Apache-2.0
// Puts names and numbers together from a seed.
#include "engine/planted_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>

#include "base/check.h"

namespace swiftkv {
namespace {

constexpr std::array<const char*, 12> kBeginnings = {"Bar", "Cel", "Dor", "Fen", "Gal", "Hol",
                                                     "Kir", "Lum", "Mar", "Nor", "Pel", "Tor"};
constexpr std::array<const char*, 12> kEndings = {"aby", "den",  "ford", "gate", "ham",  "kirk",
                                                  "low", "mere", "ton",  "vale", "wick", "worth"};

}  // namespace

std::vector<PlantedFact> MakePlantedFacts(int count, std::uint64_t seed) {
  SKV_CHECK(count >= 0 && count <= kMostFacts);
  // The generator's numbers are the same everywhere; those of std's distributions are not.
  std::mt19937_64 random(seed);
  std::vector<std::string> names;
  std::vector<std::uint64_t> numbers;
  while (static_cast<int>(names.size()) < count) {
    const std::string name = std::string(kBeginnings[random() % kBeginnings.size()]) +
                             kEndings[random() % kEndings.size()];
    const std::uint64_t number = 10000 + random() % 90000;
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    if (std::find(numbers.begin(), numbers.end(), number) != numbers.end()) continue;
    names.push_back(name);
    numbers.push_back(number);
  }
  std::vector<PlantedFact> facts;
  for (std::size_t i = 0; i < names.size(); ++i) {
    facts.push_back({fmt::format("\n\nThe access code of {} is {}.\n\n", names[i], numbers[i]),
                     fmt::format("\n\nQuestion: What is the access code of {}?\n"
                                 "Answer: The access code of {} is",
                                 names[i], names[i]),
                     fmt::format(" {}", numbers[i])});
  }
  return facts;
}

}  // namespace swiftkv
