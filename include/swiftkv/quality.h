// SPDX-License-Identifier: Apache-2.0
// Orders how much a request lets its cache lose. Layer: base.
#pragma once

#include <cstdint>

namespace swiftkv {

// The level that a request allows, and the grade that a block of the cache has. A reader takes a
// block only when the block's grade is at least as good as the reader's level allows: smaller is
// better.
enum class Quality : std::uint8_t {
  kExact = 0,  // 16-bit (f16) or wider, computed over exact blocks only
  kNear = 1,   // 8-bit formats and bf16
  kAny = 2,    // 4-bit formats and forgetting
};

// Returns the worse of two grades: what a block computed over both has.
constexpr Quality Worse(Quality a, Quality b) { return a < b ? b : a; }

// Returns whether a block of grade `have` may serve a request of level `allowed`.
constexpr bool Serves(Quality have, Quality allowed) { return have <= allowed; }

constexpr const char* QualityName(Quality quality) {
  switch (quality) {
    case Quality::kExact:
      return "exact";
    case Quality::kNear:
      return "near";
    case Quality::kAny:
      return "any";
  }
  return "unknown";
}

}  // namespace swiftkv
