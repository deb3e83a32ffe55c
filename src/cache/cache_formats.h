// SPDX-License-Identifier: Apache-2.0
// Knows the formats that sequences of a cache are in, and owns the size classes of their frames.
//
// Owner: the cache's thread. A format is set up when it is first asked for and stays. Formats whose
// frames have one size share its size class, whatever lies in them; all charge one budget.
#pragma once

#include <memory>
#include <vector>

#include "cache/block_layout.h"
#include "cache/format_plan.h"
#include "cache/frame_pool.h"
#include "cache/heap_ledger.h"

namespace swiftkv {

// A block's layout and the size classes of its frames.
struct StoredLayout {
  BlockLayout layout;
  std::vector<FramePool*> pools;  // [groups]

  std::uint64_t heap_bytes() const {
    return layout.heap_bytes() + pools.capacity() * sizeof(void*);
  }
};

// What all sequences in one format share.
struct StoredFormat {
  PageFormat asked;
  StoredLayout open;
  StoredLayout sealed;

  const StoredLayout& in(bool is_sealed) const { return is_sealed ? sealed : open; }
  // Whether old blocks of a group are re-encoded.
  bool seals(std::size_t group) const { return open.pools[group] != sealed.pools[group]; }
  Quality quality() const {
    return Worse(open.layout.formats.quality(), sealed.layout.formats.quality());
  }
  std::uint64_t heap_bytes() const {
    return sizeof(StoredFormat) + open.heap_bytes() + sealed.heap_bytes();
  }
};

class CacheFormats {
 public:
  // All three outlive the object. `pool_options` are those of every size class but for the size.
  CacheFormats(const CacheGeometry* geometry, MemoryBudget* budget, HeapLedger* ledger,
               const FramePool::Options& pool_options)
      : geometry_(geometry), budget_(budget), ledger_(ledger), pool_options_(pool_options) {}

  // Returns the format, valid as long as this object. Errors: those of FormatMap::Uniform;
  // ResourceExhausted where the bound has no room for its bookkeeping. Nothing has changed then.
  Result<const StoredFormat*> Find(const KvFormat& format);

  // Returns a format that was found before, or null.
  const StoredFormat* FindKnown(const KvFormat& format) const;

  // Returns the size class of frames of `frame_bytes`, which may be new. Errors: ResourceExhausted
  // where the bound has no room for its bookkeeping.
  Result<FramePool*> PoolOf(std::size_t frame_bytes);

  const std::vector<std::unique_ptr<FramePool>>& pools() const { return pools_; }

  // Returns what formats and size classes book on the heap.
  std::uint64_t heap_bytes() const;

 private:
  // Gives every group its size class; new ones go to the end of pools_, not booked yet.
  Status TakePools(StoredLayout* stored);
  Result<FramePool*> TakePool(std::size_t frame_bytes);

  const CacheGeometry* const geometry_;
  MemoryBudget* const budget_;
  HeapLedger* const ledger_;
  const FramePool::Options pool_options_;
  std::vector<std::unique_ptr<FramePool>> pools_;  // one per size class
  std::vector<std::unique_ptr<StoredFormat>> formats_;
};

}  // namespace swiftkv
