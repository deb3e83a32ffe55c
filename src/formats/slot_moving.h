// SPDX-License-Identifier: Apache-2.0
// Moves single slots of one plane into neighbouring slots of another.
#pragma once

#include <cstdint>
#include <span>

#include "swiftkv/page_codec.h"

namespace swiftkv {

// Writes slots `from_slots` of `source`, in that order, to slots [first_slot, first_slot +
// from_slots.size()) of `target`; at most 16. Of one codec, what they decode to stays bit for bit;
// else rows go through both codecs as in TranscodePlane, the target's guide included. Both planes
// are keys or both values, of one head size, and not the same.
void MoveSlots(const PageCodec& from, const PlaneView& source,
               std::span<const std::uint8_t> from_slots, const PageCodec& to,
               const MutablePlane& target, int first_slot);

}  // namespace swiftkv
