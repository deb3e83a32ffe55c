// SPDX-License-Identifier: Apache-2.0
// Reads lists of cache shapes.
#include "tools/bench_waste_geometry.h"

#include <algorithm>

#include "tools/printable_text.h"

namespace swiftkv {

std::string CacheShapeNames() {
  std::string names;
  for (const CacheShape& shape : kCacheShapes) names += std::string(shape.name) + ", ";
  return names + "all";
}

Result<std::vector<CacheShape>> ListCacheShapes(const NameList& names) {
  std::vector<CacheShape> shapes;
  for (const std::string& name : names.names) {
    if (name == "all" && names.names.size() == 1)
      return std::vector(kCacheShapes.begin(), kCacheShapes.end());
    const auto* const shape =
        std::find_if(kCacheShapes.begin(), kCacheShapes.end(),
                     [&](const CacheShape& known) { return name == known.name; });
    if (shape == kCacheShapes.end()) {
      return Status::InvalidArgument("geometries are some of " + CacheShapeNames() +
                                     ", not: " + PrintableExcerpt(name, 60));
    }
    shapes.push_back(*shape);
  }
  return shapes;
}

std::vector<LayerShape> LayersOf(const CacheShape& shape) {
  return std::vector<LayerShape>(
      static_cast<std::size_t>(shape.layers),
      {.kv_heads = shape.kv_heads, .head_dim = shape.head_dim, .window = 0});
}

}  // namespace swiftkv
