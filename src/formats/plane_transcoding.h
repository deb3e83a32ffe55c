// SPDX-License-Identifier: Apache-2.0
// Moves rows from a plane of one format into one of another.
#pragma once

#include "swiftkv/page_codec.h"

namespace swiftkv {

// Reads `slots` of `source` through `from` and writes them to `target` through `to`. Where both
// formats store rotated rows, they are not rotated back between: nothing is lost by rounding there.
// Both planes are keys or both values, of one head size.
void TranscodePlane(const PageCodec& from, const PlaneView& source, const PageCodec& to,
                    const MutablePlane& target, SlotRange slots);

}  // namespace swiftkv
