// SPDX-License-Identifier: Apache-2.0
// Derives everything about a cache that follows from the model's layers and the formats alone.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/format_map.h"
#include "cache/frame_layout.h"
#include "cache/layer_groups.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {

struct CacheGeometry {
  std::vector<LayerShape> layers;
  FormatMap formats;
  std::vector<LayerGroup> groups;
  std::vector<LayerPlace> places;             // [layers]
  std::vector<std::size_t> frame_bytes;       // [groups]
  std::vector<int> pool_of_group;             // [groups] index into pool_frame_bytes
  std::vector<std::size_t> pool_frame_bytes;  // one per size class; groups of one size share it

  // Errors: InvalidArgument for a bad shape or format.
  static Result<CacheGeometry> For(const KvCacheOptions& options);

  int window(std::size_t group) const { return groups[group].shape.window; }

  // Returns the frames of one block, in bytes: what 16 tokens take while every group holds them.
  std::uint64_t block_bytes() const;

  // Returns the least bound that a cache of one block can work in.
  std::uint64_t smallest_bound() const;
};

// Returns the blocks that hold `tokens` from position 0.
constexpr std::int64_t BlocksFor(std::int64_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens;
}

// Returns the oldest block that a query at `position` sees through `window` (0 sees all).
constexpr std::int64_t OldestVisibleBlock(std::int64_t position, int window) {
  return window == 0 || position < window ? 0 : (position - window + 1) / kPageTokens;
}

}  // namespace swiftkv
