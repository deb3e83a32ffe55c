// SPDX-License-Identifier: Apache-2.0
// Gathers rows, or their codes and scales, and scatters them again.
#include "formats/slot_moving.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "formats/scaled_codec.h"
#include "formats/slot_transpose.h"

namespace swiftkv {
namespace {

// The stretch of the source's slots that holds all of them: slots beyond may never have been
// written.
SlotRange StretchOf(std::span<const std::uint8_t> slots) {
  const auto [low, high] = std::minmax_element(slots.begin(), slots.end());
  return {*low, *high - *low + 1};
}

// Brings the rows of `slots` to the front of the `stretch` that was read, [stretch.count][size].
template <typename T>
void Pick(std::span<const std::uint8_t> slots, SlotRange stretch, std::size_t size, const T* read,
          T* picked) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto row = static_cast<std::size_t>(slots[i] - stretch.first_slot);
    std::memcpy(picked + i * size, read + row * size, size * sizeof(T));
  }
}

}  // namespace

void MoveSlots(const PageCodec& from, const PlaneView& source,
               std::span<const std::uint8_t> from_slots, const PageCodec& to,
               const MutablePlane& target, int first_slot) {
  SKV_CHECK(source.plane == target.plane && source.head_dim == target.head_dim);
  if (from_slots.empty()) return;
  const SlotRange written = {first_slot, static_cast<int>(from_slots.size())};
  CheckSlots(written);
  const auto dim = static_cast<std::size_t>(source.head_dim);
  SKV_CHECK(dim <= kMostChannels);
  const SlotRange stretch = StretchOf(from_slots);
  const auto* const stored_from = dynamic_cast<const ScaledCodec*>(&from);
  const auto* const stored_to = dynamic_cast<const ScaledCodec*>(&to);
  if (&from == &to && stored_from != nullptr) {
    stored_from->CopySlots(source, from_slots, target, first_slot);
    return;
  }
  alignas(kPageAlignment) float read[kPageTokens * kMostChannels];
  alignas(kPageAlignment) float picked[kPageTokens * kMostChannels];
  // Where both formats store rotated rows, they are not rotated back between.
  const bool as_stored =
      from.info().rotated && to.info().rotated && stored_from != nullptr && stored_to != nullptr;
  if (as_stored) {
    stored_from->DecodeStored(source, stretch, read, dim);
    Pick(from_slots, stretch, dim, read, picked);
    stored_to->EncodeStored(target, written, picked, dim);
    return;
  }
  // Formats without scales hold what they decode to, so that encoding that gives the same bits.
  from.Decode(source, stretch, read, dim);
  Pick(from_slots, stretch, dim, read, picked);
  to.Encode(target, written, picked, dim);
}

}  // namespace swiftkv
