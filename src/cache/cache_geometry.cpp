// SPDX-License-Identifier: Apache-2.0
// Checks the layers of a model and groups them.
#include "cache/cache_geometry.h"

#include <fmt/format.h>

#include "base/status_macros.h"

namespace swiftkv {
namespace {

Status CheckShape(const LayerShape& layer, std::size_t index) {
  constexpr int kMostHeads = 4096;
  if (layer.kv_heads < 1 || layer.kv_heads > kMostHeads) {
    return Status::InvalidArgument(fmt::format("layer {} must have 1 to {} kv heads, not: {}",
                                               index, kMostHeads, layer.kv_heads));
  }
  if (layer.window < 0) {
    return Status::InvalidArgument(
        fmt::format("layer {} must have a sliding window of 0 (none) or more tokens, not: {}",
                    index, layer.window));
  }
  return Status::Ok();
}

}  // namespace

Result<CacheGeometry> CacheGeometry::For(std::span<const LayerShape> layers) {
  constexpr std::size_t kMostLayers = 4096;
  if (layers.empty() || layers.size() > kMostLayers) {
    return Status::InvalidArgument(
        fmt::format("a cache serves 1 to {} layers, not: {}", kMostLayers, layers.size()));
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    SKV_RETURN_IF_ERROR(CheckShape(layers[i], i));
  }
  CacheGeometry geometry;
  geometry.layers.assign(layers.begin(), layers.end());
  geometry.groups = GroupLayers(layers);
  return geometry;
}

}  // namespace swiftkv
