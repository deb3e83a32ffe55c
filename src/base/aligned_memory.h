// SPDX-License-Identifier: Apache-2.0
// Owns memory that begins on a cache line.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace swiftkv {

inline constexpr std::size_t kCacheLine = 64;

constexpr std::size_t RoundToCacheLine(std::size_t bytes) {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

struct FreeAligned {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedBytes = std::unique_ptr<std::byte, FreeAligned>;

// Returns at least `bytes` bytes, not initialised; null where they are not to be had.
inline AlignedBytes AllocateAligned(std::size_t bytes) {
  return AlignedBytes(
      static_cast<std::byte*>(std::aligned_alloc(kCacheLine, RoundToCacheLine(bytes))));
}

}  // namespace swiftkv
