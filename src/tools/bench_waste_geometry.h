// SPDX-License-Identifier: Apache-2.0
// Names the models whose caches `bench waste` fills: shapes only, no weights.
#pragma once

#include <array>
#include <string>

#include "engine/option_field.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {

// All layers see every token.
struct CacheShape {
  const char* name;
  int layers;
  int kv_heads;
  int head_dim;
};

inline constexpr std::array<CacheShape, 3> kCacheShapes = {{
    {"smollm2", 30, 3, 64},
    {"llama-3.1-8b", 32, 8, 128},
    {"llama-3.1-70b", 80, 8, 128},
}};

// Returns the names with commas between, and "all".
std::string CacheShapeNames();

// Returns the shapes of a list of names; all of them for "all". Errors: InvalidArgument with the
// names.
Result<std::vector<CacheShape>> ListCacheShapes(const NameList& names);

std::vector<LayerShape> LayersOf(const CacheShape& shape);

}  // namespace swiftkv
