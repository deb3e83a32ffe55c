// SPDX-License-Identifier: Apache-2.0
// Checks the layers of a model and derives groups, frames and size classes.
#include "cache/cache_geometry.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/status_macros.h"
#include "cache/mapped_range.h"

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

Result<CacheGeometry> CacheGeometry::For(const KvCacheOptions& options) {
  constexpr std::size_t kMostLayers = 4096;
  if (options.layers.empty() || options.layers.size() > kMostLayers) {
    return Status::InvalidArgument(
        fmt::format("a cache serves 1 to {} layers, not: {}", kMostLayers, options.layers.size()));
  }
  for (std::size_t i = 0; i < options.layers.size(); ++i) {
    SKV_RETURN_IF_ERROR(CheckShape(options.layers[i], i));
  }
  CacheGeometry geometry;
  geometry.layers = options.layers;
  SKV_ASSIGN_OR_RETURN(geometry.formats, FormatMap::Uniform(options.layers, options.key_format,
                                                            options.value_format));
  geometry.groups = GroupLayers(geometry.layers);
  geometry.places.resize(geometry.layers.size());
  for (std::size_t g = 0; g < geometry.groups.size(); ++g) {
    const LayerGroup& group = geometry.groups[g];
    const FrameLayout frame = PlaceLayers(group, static_cast<int>(g), geometry.formats);
    for (std::size_t i = 0; i < group.layers.size(); ++i) {
      geometry.places[static_cast<std::size_t>(group.layers[i])] = frame.places[i];
    }
    geometry.frame_bytes.push_back(frame.frame_bytes);
    auto& sizes = geometry.pool_frame_bytes;
    const auto known = std::find(sizes.begin(), sizes.end(), frame.frame_bytes);
    geometry.pool_of_group.push_back(static_cast<int>(known - sizes.begin()));
    if (known == sizes.end()) sizes.push_back(frame.frame_bytes);
  }
  return geometry;
}

std::uint64_t CacheGeometry::block_bytes() const {
  std::uint64_t bytes = 0;
  for (const std::size_t frame : frame_bytes) bytes += frame;
  return bytes;
}

std::uint64_t CacheGeometry::smallest_bound() const {
  constexpr std::size_t kPagesOfBookkeeping = 3;  // bitmap, page counts, reference counts
  constexpr std::size_t kHeapBytesOfGroup = 256;  // one sequence's table, upper bitmap levels
  std::uint64_t pages = OsPages((groups.size() + 1) * kHeapBytesOfGroup);
  for (const std::size_t frame : frame_bytes) pages += OsPages(frame);
  pages += kPagesOfBookkeeping * pool_frame_bytes.size();
  return pages * OsPageBytes();
}

}  // namespace swiftkv
