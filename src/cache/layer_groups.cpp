// SPDX-License-Identifier: Apache-2.0
// Groups layers by equal shapes.
#include "cache/layer_groups.h"

#include <algorithm>

namespace swiftkv {

std::vector<LayerGroup> GroupLayers(std::span<const LayerShape> layers) {
  std::vector<LayerGroup> groups;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const LayerGroup& known) { return known.shape == layers[i]; });
    if (group == groups.end()) group = groups.insert(group, {layers[i], {}});
    group->layers.push_back(static_cast<int>(i));
  }
  return groups;
}

}  // namespace swiftkv
