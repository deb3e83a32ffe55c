// SPDX-License-Identifier: Apache-2.0
// Holds what the public cache consists of, for the files that implement it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "cache/cache_geometry.h"
#include "cache/memory_budget.h"
#include "cache/sequence_set.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {

struct KvCache::State {
  explicit State(CacheGeometry the_geometry, std::uint64_t limit_bytes)
      : geometry(std::move(the_geometry)), budget(limit_bytes) {}

  const CacheGeometry geometry;
  MemoryBudget budget;
  std::unique_ptr<SequenceSet> sequences;    // refers to the two above
  const StoredFormat* own_format = nullptr;  // of sequences that do not say otherwise
  std::string model_fingerprint;

  BlockKey RootOf(const PrefixScope& scope) const {
    KeyRoot root;
    root.model_fingerprint = model_fingerprint;
    root.tenant_salt = scope.tenant_salt;
    root.request_salt = scope.request_salt;
    root.adapter = scope.adapter;
    return RootKey(root);
  }
};

}  // namespace swiftkv
