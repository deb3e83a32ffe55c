// SPDX-License-Identifier: Apache-2.0
// Computes prompts on a cache the way an engine does: adopt what is known, store and commit the
// rest, with rows that depend on all tokens so far, so that a wrong block shows.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "cache/cache_geometries.h"
#include "cache/cache_geometry.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {

using Tokens = std::vector<std::int32_t>;

// What attention over all tokens before makes of a token: equal exactly where the prefixes are.
// `family` stands for the model, tenant and adapter.
inline std::vector<std::uint32_t> ContextSeeds(const Tokens& tokens, std::uint32_t family = 0) {
  std::vector<std::uint32_t> seeds;
  std::uint32_t state = 2166136261U + family * 97U;
  for (const std::int32_t token : tokens) {
    state = (state ^ static_cast<std::uint32_t>(token)) * 16777619U;
    state ^= state >> 13;
    seeds.push_back(state);
  }
  return seeds;
}

// A token's row of one layer, the same for all heads; exact in formats of 16 bits.
inline std::vector<float> RowOf(std::uint32_t seed, int layer, int head_dim, bool is_key) {
  std::vector<float> row;
  std::uint32_t x = (seed + static_cast<std::uint32_t>(layer) * 7919U + (is_key ? 1U : 0U)) | 1U;
  for (int c = 0; c < head_dim; ++c) {
    x = x * 1664525U + 1013904223U;
    row.push_back(static_cast<float>(static_cast<int>((x >> 16) % 255) - 127));
  }
  return row;
}

// The size of the difference, as a fraction of `expected`'s.
inline double RelativeError(const std::vector<float>& row, const std::vector<float>& expected) {
  double error = 0;
  double size = 0;
  for (std::size_t c = 0; c < row.size(); ++c) {
    error += (row[c] - expected[c]) * (row[c] - expected[c]);
    size += expected[c] * expected[c];
  }
  return std::sqrt(error / size);
}

class PrefixTrial {
 public:
  explicit PrefixTrial(const TestGeometry& geometry, std::uint64_t memory_bytes = 16 << 20,
                       const KvFormat& format = {})
      : format_(format) {
    KvCacheOptions options;
    options.layers = geometry.layers;
    options.key_format = format.key;
    options.value_format = format.value;
    options.memory_bytes = memory_bytes;
    options.poison_free_frames = true;
    options.model_fingerprint = "trial";
    auto cache = KvCache::Create(options);
    EXPECT_TRUE(cache.ok()) << cache.status().message();
    cache_ = std::move(cache).value();
  }

  KvCache& cache() { return *cache_; }
  const KvFormat& format() const { return format_; }

  SequenceId Create(const PrefixScope& scope = {}) {
    const auto id = cache_->CreateSequence(format_, scope);
    EXPECT_TRUE(id.ok()) << id.status().message();
    return *id;
  }

  // Stores and commits tokens [Length(), end) of a prompt; false where the cache has no room.
  bool Compute(SequenceId id, const Tokens& tokens, std::size_t end, std::uint32_t family = 0) {
    const auto begin = static_cast<std::size_t>(cache_->Length(id));
    if (!cache_->Reserve(id, static_cast<int>(end - begin)).ok()) return false;
    Store(id, tokens, begin, end, family);
    cache_->Commit(id, std::span(tokens).subspan(begin, end - begin));
    return true;
  }

  void Store(SequenceId id, const Tokens& tokens, std::size_t begin, std::size_t end,
             std::uint32_t family = 0) {
    const std::vector<std::uint32_t> seeds = ContextSeeds(tokens, family);
    for (int layer = 0; layer < cache_->num_layers(); ++layer) {
      const LayerShape& shape = cache_->layer(layer);
      const auto stride = static_cast<std::size_t>(shape.kv_heads * shape.head_dim);
      std::vector<float> keys;
      std::vector<float> values;
      for (std::size_t t = begin; t < end; ++t) {
        const std::vector<float> key = RowOf(seeds[t], layer, shape.head_dim, true);
        const std::vector<float> value = RowOf(seeds[t], layer, shape.head_dim, false);
        for (int head = 0; head < shape.kv_heads; ++head) {
          keys.insert(keys.end(), key.begin(), key.end());
          values.insert(values.end(), value.begin(), value.end());
        }
      }
      cache_->StoreRows({.sequence = id,
                         .layer = layer,
                         .first_position = static_cast<std::int64_t>(begin),
                         .num_tokens = static_cast<int>(end - begin),
                         .first_head = 0,
                         .end_head = shape.kv_heads,
                         .keys = keys.data(),
                         .values = values.data(),
                         .token_stride = stride});
    }
  }

  // Adopts, computes the rest in chunks, checks every visible row; returns the hit.
  PrefixHit Serve(SequenceId id, const Tokens& tokens, std::size_t chunk = 1000,
                  std::uint32_t family = 0, double tolerance = 0) {
    auto hit = cache_->AdoptPrefix(id, tokens);
    EXPECT_TRUE(hit.ok()) << hit.status().message();
    EXPECT_EQ(hit->tokens, cache_->Length(id));
    for (auto at = static_cast<std::size_t>(hit->tokens); at < tokens.size();) {
      at = std::min(tokens.size(), at + chunk);
      EXPECT_TRUE(Compute(id, tokens, at, family)) << at;
      if (::testing::Test::HasFailure()) return *hit;
    }
    Check(id, tokens, family, tolerance);
    return *hit;
  }

  // The same with a sequence of its own, which goes again.
  PrefixHit ServeOnce(const Tokens& tokens, const PrefixScope& scope = {}, std::uint32_t family = 0,
                      double tolerance = 0) {
    const SequenceId id = Create(scope);
    const PrefixHit hit = Serve(id, tokens, 1000, family, tolerance);
    cache_->Release(id);
    return hit;
  }

  PrefixHit Find(const Tokens& tokens, const PrefixScope& scope = {}) const {
    return cache_->FindPrefix(format_, scope, tokens);
  }

  // Every row that the sequence sees is what its own tokens make, within `tolerance` of its size.
  void Check(SequenceId id, const Tokens& tokens, std::uint32_t family = 0, double tolerance = 0) {
    CheckRows(id, tokens, family, tolerance);
    cache_->CheckInvariants();
  }

  void CheckRows(SequenceId id, const Tokens& tokens, std::uint32_t family, double tolerance) {
    const std::vector<std::uint32_t> seeds = ContextSeeds(tokens, family);
    ASSERT_LE(static_cast<std::size_t>(cache_->Length(id)), tokens.size());
    std::vector<float> row;
    for (int layer = 0; layer < cache_->num_layers(); ++layer) {
      const LayerShape& shape = cache_->layer(layer);
      row.resize(static_cast<std::size_t>(shape.head_dim));
      std::vector<PageRun> runs;
      cache_->AppendRuns(id, layer, 0, &runs);
      const std::int64_t oldest = OldestVisibleBlock(cache_->Length(id), shape.window);
      std::int64_t next = runs.empty() ? cache_->Length(id) : runs.front().first_position;
      ASSERT_LE(next, std::max<std::int64_t>(oldest * kPageTokens, 0));
      for (const PageRun& run : runs) {
        ASSERT_EQ(run.first_position, next);
        next += run.num_tokens;
        for (int t = 0; t < run.num_tokens; ++t) {
          const auto position = static_cast<std::size_t>(run.first_position + t);
          const std::vector<float> key = RowOf(seeds[position], layer, shape.head_dim, true);
          const std::vector<float> value = RowOf(seeds[position], layer, shape.head_dim, false);
          for (int head = 0; head < shape.kv_heads; ++head) {
            const std::byte* const page = run.Page(t / kPageTokens, head);
            const SlotRange slot = {t % kPageTokens, 1};
            run.format.key->Decode(KeyPlane(run.format, run.layout, shape.head_dim, page), slot,
                                   row.data(), row.size());
            ASSERT_LE(RelativeError(row, key), tolerance) << "position " << position;
            run.format.value->Decode(ValuePlane(run.format, run.layout, shape.head_dim, page), slot,
                                     row.data(), row.size());
            ASSERT_LE(RelativeError(row, value), tolerance) << "position " << position;
          }
        }
      }
      ASSERT_EQ(next, cache_->Length(id));
    }
  }

 private:
  const KvFormat format_;
  std::unique_ptr<KvCache> cache_;
};

// `count` tokens that follow from a seed.
inline Tokens Prompt(std::uint32_t seed, std::size_t count, int alphabet = 50000) {
  Tokens tokens;
  std::uint32_t x = seed * 2654435761U + 12345;
  for (std::size_t i = 0; i < count; ++i) {
    x = x * 1664525U + 1013904223U;
    tokens.push_back(static_cast<std::int32_t>((x >> 8) % static_cast<std::uint32_t>(alphabet)));
  }
  return tokens;
}

inline Tokens Join(const Tokens& a, const Tokens& b) {
  Tokens joined = a;
  joined.insert(joined.end(), b.begin(), b.end());
  return joined;
}

}  // namespace swiftkv
