// SPDX-License-Identifier: Apache-2.0
// Places the pages of one block: in which group's frame, and where in it, every layer lies.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/cache_geometry.h"
#include "cache/format_map.h"
#include "cache/frame_layout.h"

namespace swiftkv {

struct BlockLayout {
  FormatMap formats;
  std::vector<LayerPlace> places;        // [layers]
  std::vector<std::size_t> frame_bytes;  // [groups]

  static BlockLayout For(const CacheGeometry& geometry, FormatMap formats);

  // Returns the frames of one block, in bytes: what 16 tokens take while every group holds them.
  std::uint64_t block_bytes() const;

  // Returns what the three arrays take on the heap.
  std::uint64_t heap_bytes() const;
};

// Returns the least bound in which a cache of the two layouts can hold one open block.
std::uint64_t SmallestBound(const BlockLayout& open, const BlockLayout& sealed);

}  // namespace swiftkv
