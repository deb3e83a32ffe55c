// SPDX-License-Identifier: Apache-2.0
// Translates the frame of one block from one layout's formats into another's.
#pragma once

#include <cstddef>

#include "cache/block_layout.h"
#include "cache/cache_geometry.h"

namespace swiftkv {

// A frame's bytes and how they lie. Byte is std::byte or const std::byte.
template <typename Byte>
struct LaidOutFrame {
  const BlockLayout* layout;
  Byte* data;
};

// Writes slots [0, num_slots) of every page of a group from `from` to `to`. Planes of one format on
// both sides are copied byte for byte, all slots; the others are decoded and encoded.
void RecodeFrame(const CacheGeometry& geometry, std::size_t group,
                 LaidOutFrame<const std::byte> from, LaidOutFrame<std::byte> to, int num_slots);

}  // namespace swiftkv
