// SPDX-License-Identifier: Apache-2.0
// Makes caches and fills sequences with constant rows, for tests that follow single tokens.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "cache/cache_geometries.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {

inline std::unique_ptr<KvCache> NewCache(const TestGeometry& geometry, std::uint64_t memory_bytes,
                                         const char* format = "f16", bool poison = false) {
  KvCacheOptions options;
  options.layers = geometry.layers;
  options.key_format = options.value_format = format;
  options.memory_bytes = memory_bytes;
  options.poison_free_frames = poison;
  auto cache = KvCache::Create(options);
  EXPECT_TRUE(cache.ok()) << cache.status().message();
  return std::move(cache).value();
}

// Stores `count` tokens whose every K value is `value` and whose V values are its negative.
inline void StoreConstant(const KvCache& cache, SequenceId id, std::int64_t position, int count,
                          float value) {
  for (int layer = 0; layer < cache.num_layers(); ++layer) {
    const LayerShape& shape = cache.layer(layer);
    const auto stride = static_cast<std::size_t>(shape.kv_heads * shape.head_dim);
    const std::vector<float> keys(stride * static_cast<std::size_t>(count), value);
    const std::vector<float> values(keys.size(), -value);
    cache.StoreRows({.sequence = id,
                     .layer = layer,
                     .first_position = position,
                     .num_tokens = count,
                     .first_head = 0,
                     .end_head = shape.kv_heads,
                     .keys = keys.data(),
                     .values = values.data(),
                     .token_stride = stride});
  }
}

inline void Append(KvCache* cache, SequenceId id, int count, float value) {
  const Status status = cache->Reserve(id, count);
  ASSERT_TRUE(status.ok()) << status.message();
  StoreConstant(*cache, id, cache->Length(id), count, value);
  cache->Commit(id, count);
}

// Returns the first channel of every K row that the last query of `layer` may see, head 0.
inline std::vector<float> VisibleKeys(const KvCache& cache, SequenceId id, int layer = 0) {
  std::vector<PageRun> runs;
  cache.AppendRuns(id, layer, 0, &runs);
  std::vector<float> result;
  const int dim = cache.layer(layer).head_dim;
  std::vector<float> row(static_cast<std::size_t>(dim));
  for (const PageRun& run : runs) {
    if (run.first_head > 0) continue;
    for (int t = 0; t < run.num_tokens; ++t) {
      const std::byte* const page = run.Page(t / kPageTokens, 0);
      run.format.key->Decode(KeyPlane(run.format, run.layout, dim, page), {t % kPageTokens, 1},
                             row.data(), row.size());
      result.push_back(row[0]);
    }
  }
  return result;
}

}  // namespace swiftkv
