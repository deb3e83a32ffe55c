// SPDX-License-Identifier: Apache-2.0
// Counts findable first blocks by their tokens alone, whatever their salts.
//
// Keys of one prompt under different salts have nothing in common, so that telling whether a
// beginning is known to anybody would mean hashing it under every salt. Most beginnings that are
// not found are new to all: a counter that is 0 says so at once, one that is not says nothing.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/check.h"

namespace swiftkv {

class PrefixBeginnings {
 public:
  // [16] tokens of a block at position 0, once it becomes findable and once it no longer is.
  void Add(std::span<const std::int32_t> tokens) { ++counts_[SlotOf(tokens)]; }
  void Remove(std::span<const std::int32_t> tokens) {
    SKV_CHECK(counts_[SlotOf(tokens)] > 0);
    --counts_[SlotOf(tokens)];
  }

  // Whether a findable block may have these tokens; false is certain.
  bool MayContain(std::span<const std::int32_t> tokens) const {
    return counts_[SlotOf(tokens)] > 0;
  }

 private:
  static constexpr unsigned kSlotBits = 11;

  // Who provokes equal slots gains nothing but the slower look-up.
  static std::size_t SlotOf(std::span<const std::int32_t> tokens) {
    std::uint64_t hash = 0;
    for (const std::int32_t token : tokens) {
      hash = (hash ^ static_cast<std::uint32_t>(token)) * 0x9E3779B97F4A7C15U;
    }
    return hash >> (64 - kSlotBits);
  }

  std::array<std::uint32_t, std::size_t{1} << kSlotBits> counts_{};
};

}  // namespace swiftkv
