// SPDX-License-Identifier: Apache-2.0
// Groups layers that see the same span and have the same shape: they share frames.
#pragma once

#include <span>
#include <vector>

#include "swiftkv/kv_cache.h"

namespace swiftkv {

struct LayerGroup {
  LayerShape shape;
  std::vector<int> layers;  // ascending
};

// Returns the groups in the order of their first layers.
std::vector<LayerGroup> GroupLayers(std::span<const LayerShape> layers);

}  // namespace swiftkv
