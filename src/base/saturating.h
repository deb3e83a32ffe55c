// SPDX-License-Identifier: Apache-2.0
// Adds, subtracts and multiplies sizes from outside: results stop at 0 and at the largest number.
#pragma once

#include <cstdint>
#include <limits>

namespace swiftkv {

constexpr std::uint64_t SaturatingAdd(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::uint64_t>::max() : sum;
}

constexpr std::uint64_t SaturatingSubtract(std::uint64_t from, std::uint64_t what) {
  return from > what ? from - what : 0;
}

constexpr std::uint64_t SaturatingMultiply(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::uint64_t>::max()
                                                : product;
}

}  // namespace swiftkv
