// SPDX-License-Identifier: Apache-2.0
// Moves rows in and out of planes that hold one unit of all 16 slots side by side, [units][16].
//
// A unit is what stays together: one value, or a pair of values.
#pragma once

#include <cstddef>

#include "base/check.h"
#include "swiftkv/page_codec.h"

namespace swiftkv {

// Of a head that any format serves.
inline constexpr std::size_t kMostChannels = 1024;

// Head sizes that the formats serve.
inline bool IsPlainHeadDim(int head_dim) {
  return head_dim > 0 && static_cast<std::size_t>(head_dim) <= kMostChannels &&
         head_dim % kPageTokens == 0;
}

inline void CheckSlots(SlotRange slots) {
  SKV_CHECK(slots.first_slot >= 0 && slots.count >= 0 &&
            slots.first_slot + slots.count <= kPageTokens);
}

// Writes rows [slots.count][row_units] into the slots of `plane`, [num_units][16].
template <typename Unit>
void ScatterSlots(const Unit* rows, std::size_t row_units, std::size_t num_units, SlotRange slots,
                  Unit* plane) {
  Unit* const first = plane + slots.first_slot;
  if (slots.count == kPageTokens) {  // a known count lets the compiler unroll
    for (std::size_t unit = 0; unit < num_units; ++unit) {
      for (std::size_t t = 0; t < kPageTokens; ++t) {
        first[unit * kPageTokens + t] = rows[t * row_units + unit];
      }
    }
    return;
  }
  for (int t = 0; t < slots.count; ++t) {
    const Unit* const row = rows + static_cast<std::size_t>(t) * row_units;
    for (std::size_t unit = 0; unit < num_units; ++unit) first[unit * kPageTokens + t] = row[unit];
  }
}

// Reads the slots of `plane`, [num_units][16], into rows [slots.count][row_units].
template <typename Unit>
void GatherSlots(const Unit* plane, std::size_t num_units, SlotRange slots, Unit* rows,
                 std::size_t row_units) {
  for (int t = 0; t < slots.count; ++t) {
    Unit* const row = rows + static_cast<std::size_t>(t) * row_units;
    const Unit* const slot = plane + slots.first_slot + t;
    for (std::size_t unit = 0; unit < num_units; ++unit) row[unit] = slot[unit * kPageTokens];
  }
}

}  // namespace swiftkv
