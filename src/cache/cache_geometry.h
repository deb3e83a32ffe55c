// SPDX-License-Identifier: Apache-2.0
// Derives what follows from the model's layers alone: groups, and the values that a token stores.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/layer_groups.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {

struct CacheGeometry {
  std::vector<LayerShape> layers;
  std::vector<LayerGroup> groups;
  std::shared_ptr<const KeyGuides> key_guides;  // null for none, else of all layers and heads

  // Errors: InvalidArgument for a bad shape.
  static Result<CacheGeometry> For(std::span<const LayerShape> layers);

  // Returns what guides the rounding of a head's keys, or null.
  const RoundingGuide* guide(int layer, std::size_t head) const {
    if (key_guides == nullptr) return nullptr;
    return &(*key_guides)[static_cast<std::size_t>(layer)][head];
  }

  int window(std::size_t group) const { return groups[group].shape.window; }

  // Returns the K and V values that one token stores in the layers of a group.
  std::uint64_t values_per_token(std::size_t group) const {
    const LayerShape& shape = groups[group].shape;
    return groups[group].layers.size() * 2 * static_cast<std::uint64_t>(shape.kv_heads) *
           static_cast<std::uint64_t>(shape.head_dim);
  }
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
