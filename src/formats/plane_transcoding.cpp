// SPDX-License-Identifier: Apache-2.0
// Chains two codecs, by the rows as they are stored where both are rotated.
#include "formats/plane_transcoding.h"

#include "base/check.h"
#include "formats/scaled_codec.h"
#include "formats/slot_transpose.h"

namespace swiftkv {

void TranscodePlane(const PageCodec& from, const PlaneView& source, const PageCodec& to,
                    const MutablePlane& target, SlotRange slots) {
  SKV_CHECK(source.plane == target.plane && source.head_dim == target.head_dim);
  const auto stride = static_cast<std::size_t>(source.head_dim);
  SKV_CHECK(stride <= kMostChannels);
  alignas(kPageAlignment) float rows[kPageTokens * kMostChannels];
  if (from.info().rotated && to.info().rotated) {
    const auto* const stored_from = dynamic_cast<const ScaledCodec*>(&from);
    const auto* const stored_to = dynamic_cast<const ScaledCodec*>(&to);
    if (stored_from != nullptr && stored_to != nullptr) {
      stored_from->DecodeStored(source, slots, rows, stride);
      stored_to->EncodeStored(target, slots, rows, stride);
      return;
    }
  }
  from.Decode(source, slots, rows, stride);
  to.Encode(target, slots, rows, stride);
}

}  // namespace swiftkv
