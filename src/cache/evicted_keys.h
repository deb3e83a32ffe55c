// SPDX-License-Identifier: Apache-2.0
// Remembers which blocks were evicted of late, to tell them from what was never seen.
//
// A table of key fingerprints in which later ones overwrite earlier ones: it forgets, and names a
// block evicted that was not once in 2^64. It takes its memory at the first eviction, if there is
// room, and gives it back as the last thing that can be evicted.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/block_key.h"
#include "cache/heap_ledger.h"

namespace swiftkv {

class EvictedKeys {
 public:
  // `limit_bytes` is the cache's bound: the table takes up to 1/2048 of it. `ledger` outlives it.
  EvictedKeys(std::uint64_t limit_bytes, HeapLedger* ledger);

  void Add(const BlockKey& key);
  bool Contains(const BlockKey& key) const;

  // Gives the table back; false where there was none.
  bool Clear();

  std::uint64_t heap_bytes() const { return table_.capacity() * sizeof(std::uint64_t); }

 private:
  const std::size_t slots_;  // a power of two, or 0
  HeapLedger* const ledger_;
  std::vector<std::uint64_t> table_;  // [slots_] or empty
};

}  // namespace swiftkv
