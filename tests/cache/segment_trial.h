// SPDX-License-Identifier: Apache-2.0
// Orders compactions and checks what a sequence sees afterwards against a plain list of what it
// should: per layer, head and position.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cache/prefix_trial.h"
#include "cache/stamped_rows.h"

namespace swiftkv {

// Which tokens a head keeps: a function of layer, head and position; the number of the format, or
// -1 where the token is dropped.
using Keeps = int (*)(int layer, int head, std::int64_t position);

inline int KeepsAll(int, int, std::int64_t) { return 0; }
// Heads of very unlike lengths: from all to one in seven.
inline int KeepsRagged(int layer, int head, std::int64_t position) {
  return (position * 7 + layer * 3 + head) % (1 + (layer + 2 * head) % 7) == 0 ? 0 : -1;
}
// Half, in pages' worth of two formats.
inline int KeepsMixed(int layer, int head, std::int64_t position) {
  const std::int64_t mix = position * 5 + layer + head * 11;
  return mix % 4 == 0 ? 0 : mix % 4 == 1 ? 1 : -1;
}
inline int KeepsHalf(int, int, std::int64_t position) { return position % 2 == 0 ? 0 : -1; }
inline int KeepsQuarter(int, int, std::int64_t position) { return position % 4 == 0 ? 0 : -1; }
// One head of one layer keeps nothing at all.
inline int KeepsNone(int layer, int head, std::int64_t position) {
  return layer == 0 && head == 0 ? -1 : KeepsHalf(layer, head, position);
}

// Returns the order that keeps of what the sequence holds below `end`.
inline CompactionOrder OrderOf(const KvCache& cache, SequenceId id, std::int64_t end,
                               std::vector<KvFormat> formats, Keeps keeps) {
  CompactionOrder order;
  order.end = end;
  order.formats = std::move(formats);
  order.recipe = "test";
  for (int layer = 0; layer < cache.num_layers(); ++layer) {
    if (cache.layer(layer).window != 0) continue;
    for (int head = 0; head < cache.layer(layer).kv_heads; ++head) {
      KeptHead kept = {layer, head, {}};
      kept.positions.resize(order.formats.size());
      std::vector<std::int32_t> held;
      cache.AppendKeptPositions(id, layer, head, &held);
      for (std::int64_t p = cache.SegmentEnd(id); p < end; ++p) {
        held.push_back(static_cast<std::int32_t>(p));
      }
      for (const std::int32_t position : held) {
        const int format = keeps(layer, head, position);
        if (format < 0) continue;
        kept.positions[static_cast<std::size_t>(format)].push_back(position);
      }
      order.heads.push_back(std::move(kept));
    }
  }
  return order;
}

// Takes the oldest from what heads keep in the first format, down to `count` each.
inline void KeepNewest(std::size_t count, CompactionOrder* order) {
  for (KeptHead& head : order->heads) {
    std::vector<std::int32_t>& kept = head.positions[0];
    const std::size_t dropped = kept.size() - std::min(kept.size(), count);
    kept.erase(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(dropped));
  }
}

// Stores and commits tokens whose rows tell token, layer and head.
inline void AppendStamped(KvCache* cache, SequenceId id, int count, std::uint32_t first_stamp) {
  const Status status = cache->Reserve(id, count);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int layer = 0; layer < cache->num_layers(); ++layer) {
    const LayerShape& shape = cache->layer(layer);
    const auto dim = static_cast<std::size_t>(shape.head_dim);
    const std::size_t stride = dim * static_cast<std::size_t>(shape.kv_heads);
    std::vector<float> keys(stride * static_cast<std::size_t>(count));
    std::vector<float> values(keys.size());
    for (int t = 0; t < count; ++t) {
      for (int head = 0; head < shape.kv_heads; ++head) {
        const std::size_t at =
            static_cast<std::size_t>(t) * stride + static_cast<std::size_t>(head) * dim;
        const std::uint32_t token = first_stamp + static_cast<std::uint32_t>(t);
        StampRow({token, layer, head, true}, dim, &keys[at]);
        StampRow({token, layer, head, false}, dim, &values[at]);
      }
    }
    cache->StoreRows({.sequence = id,
                      .layer = layer,
                      .first_position = cache->Length(id),
                      .num_tokens = count,
                      .first_head = 0,
                      .end_head = shape.kv_heads,
                      .keys = keys.data(),
                      .values = values.data(),
                      .token_stride = stride});
  }
  cache->Commit(id, count);
}

// What a head of a layer is seen to hold: position -> row, K then V.
using SeenRows = std::map<std::int64_t, std::vector<float>>;

inline SeenRows RowsSeen(const KvCache& cache, SequenceId id, int layer, int head) {
  SeenRows seen;
  std::vector<PageRun> runs;
  cache.AppendRuns(id, layer, 0, &runs);
  const auto dim = static_cast<std::size_t>(cache.layer(layer).head_dim);
  for (const PageRun& run : runs) {
    if (head < run.first_head || head >= run.end_head) continue;
    EXPECT_EQ(run.num_pages, BlocksFor(run.num_tokens));
    if (run.positions != nullptr) {
      EXPECT_EQ(run.first_position, run.positions[0]);
      EXPECT_TRUE(std::is_sorted(run.positions, run.positions + run.num_tokens));
    }
    for (int t = 0; t < run.num_tokens; ++t) {
      const std::int64_t position =
          run.positions == nullptr ? run.first_position + t : run.positions[t];
      std::vector<float> row(2 * dim);
      const std::byte* const page = run.Page(t / kPageTokens, head);
      const SlotRange slot = {t % kPageTokens, 1};
      const auto size = static_cast<int>(dim);
      run.format.key->Decode(KeyPlane(run.format, run.layout, size, page), slot, row.data(), dim);
      run.format.value->Decode(ValuePlane(run.format, run.layout, size, page), slot,
                               row.data() + dim, dim);
      EXPECT_TRUE(seen.emplace(position, std::move(row)).second)
          << "position " << position << " is there twice";
    }
  }
  return seen;
}

// The rows of every head of every layer.
using SeenCache = std::map<std::pair<int, int>, SeenRows>;

inline SeenCache AllSeen(const KvCache& cache, SequenceId id) {
  SeenCache seen;
  for (int layer = 0; layer < cache.num_layers(); ++layer) {
    for (int head = 0; head < cache.layer(layer).kv_heads; ++head) {
      seen[{layer, head}] = RowsSeen(cache, id, layer, head);
    }
  }
  return seen;
}

// Takes from `before` what an order drops.
inline SeenCache WithoutDropped(const CompactionOrder& order, SeenCache before) {
  for (const KeptHead& head : order.heads) {
    std::set<std::int64_t> kept;
    for (const auto& positions : head.positions) kept.insert(positions.begin(), positions.end());
    std::erase_if(before[{head.layer, head.head}], [&](const auto& row) {
      return row.first < order.end && kept.count(row.first) == 0;
    });
  }
  return before;
}

// Rows agree within `tolerance` of their size; 0 asks for every bit.
inline void ExpectSameRows(const SeenCache& expected, const SeenCache& seen, double tolerance = 0) {
  ASSERT_EQ(expected.size(), seen.size());
  for (const auto& [where, rows] : expected) {
    const SeenRows& found = seen.at(where);
    ASSERT_EQ(rows.size(), found.size()) << "layer " << where.first << " head " << where.second;
    for (const auto& [position, row] : rows) {
      ASSERT_TRUE(found.count(position)) << "position " << position;
      const std::vector<float>& other = found.at(position);
      if (tolerance == 0) {
        ASSERT_EQ(row, other) << "position " << position;
      } else {
        ASSERT_LE(RelativeError(other, row), tolerance) << "position " << position;
      }
    }
  }
}

struct FormatCase {
  KvFormat format;
  TestGeometry geometry;
};

inline std::unique_ptr<KvCache> NewCacheOf(const TestGeometry& geometry, const KvFormat& format,
                                           std::uint64_t memory_bytes = 32 << 20) {
  KvCacheOptions options;
  options.layers = geometry.layers;
  options.key_format = format.key;
  options.value_format = format.value;
  options.memory_bytes = memory_bytes;
  options.poison_free_frames = true;
  return std::move(KvCache::Create(options)).value();
}

inline constexpr const char* kRecipe = "half";

inline PrefixScope AnyScope() {
  PrefixScope scope;
  scope.allowed = Quality::kAny;
  return scope;
}

inline CompactionOrder ShareableOrder(const KvCache& cache, SequenceId id, std::int64_t end,
                                      Keeps keeps = KeepsHalf, const char* recipe = kRecipe) {
  CompactionOrder order = OrderOf(cache, id, end, {{"f16", "f16"}}, keeps);
  order.recipe = recipe;
  order.shareable = true;
  return order;
}

}  // namespace swiftkv
