// SPDX-License-Identifier: Apache-2.0
// Draws tokens with the standard's fixed 64-bit Mersenne twister.
#include "support/token_sequence.h"

#include <random>

namespace swiftkv {

std::vector<int32_t> RandomTokens(int count, int vocabulary, uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(count));
  while (static_cast<int>(tokens.size()) < count) {
    const uint64_t back = 1 + bits() % 12;
    if (bits() % 3 == 0 && back <= tokens.size()) {
      tokens.push_back(tokens[tokens.size() - back]);
    } else {
      tokens.push_back(static_cast<int32_t>(bits() % static_cast<uint64_t>(vocabulary)));
    }
  }
  return tokens;
}

}  // namespace swiftkv
