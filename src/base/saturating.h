// SPDX-License-Identifier: Apache-2.0
// Adds and multiplies sizes that may be beyond all memory: results stop at the largest number.
#pragma once

#include <cstdint>
#include <limits>

namespace swiftkv {

constexpr std::uint64_t SaturatingAdd(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::uint64_t>::max() : sum;
}

constexpr std::uint64_t SaturatingMultiply(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::uint64_t>::max()
                                                : product;
}

}  // namespace swiftkv
