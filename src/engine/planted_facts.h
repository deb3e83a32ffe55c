// SPDX-License-Identifier: Apache-2.0
// Words facts that no text holds, and the questions that ask for them. Layer: engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace swiftkv {

struct PlantedFact {
  std::string sentence;  // states the fact, with line breaks around it
  std::string question;  // ends where the answer begins
  std::string answer;    // begins with a space
};

// Returns `count` facts of one form about different names, with different answers; equal seeds give
// equal facts. At most kMostFacts.
std::vector<PlantedFact> MakePlantedFacts(int count, std::uint64_t seed);

inline constexpr int kMostFacts = 64;

}  // namespace swiftkv
