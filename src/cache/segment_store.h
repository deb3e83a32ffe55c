// SPDX-License-Identifier: Apache-2.0
// Keeps compressed segments: who stands on them, how they are found, and when they go.
//
// Owner: SequenceSet. A segment lives while a sequence stands on it or it is findable. One that is
// findable and on which nobody stands is idle: it may be evicted, unless it is pinned or something
// computed on top of it is still findable, which goes first.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "cache/compressed_segment.h"
#include "cache/prefix_index.h"
#include "swiftkv/compaction.h"

namespace swiftkv {

class SegmentStore {
 public:
  // All three outlive the store.
  SegmentStore(const CacheGeometry* geometry, PrefixIndex* index, HeapLedger* ledger)
      : geometry_(geometry), index_(index), ledger_(ledger) {}

  // Books the heap of a segment and room to note it; false, and no change, where there is none.
  [[nodiscard]] bool TryBook(const CompressedSegment& segment);
  // Gives a booking back.
  void Unbook(const CompressedSegment& segment);

  // Takes over a segment that was booked, with one owner.
  CompressedSegment* Add(std::unique_ptr<CompressedSegment> segment);
  // Says that a segment was filled.
  void CountCompaction() { ++totals_.compactions; }

  void AddOwner(CompressedSegment* segment) { ++segment->owners; }
  // Frees a segment that nobody can find when its last owner leaves.
  void RemoveOwner(CompressedSegment* segment);
  // Forgets a segment of one owner that nobody can find, whose pages its owner has released.
  void Forget(CompressedSegment* segment);

  // What a look-up wants.
  struct Query {
    BlockKey scope;
    const StoredFormat* format = nullptr;
    std::span<const std::int32_t> tokens;
    std::string_view recipe;
    std::int64_t most_tokens = 0;  // the segment may end there at the latest
  };
  // Returns the longest segment that was made of a beginning of the tokens, or null.
  CompressedSegment* Find(const Query& query) const;
  CompressedSegment* FindKey(const BlockKey& key, const StoredFormat* format) const;

  // The idle segment that is worth least, or null where none may go.
  const CompressedSegment* EvictionCandidate() const;
  void Evict(const CompressedSegment* segment);

  // Makes all segments, or those of a scope, findable no more; returns the blocks that they cover.
  std::uint64_t DropAll();
  std::uint64_t DropScope(const BlockKey& scope);

  void SetTime(std::int64_t milliseconds) { now_ = milliseconds; }

  // Bytes that frame pools count as private: of segments with two and more owners, and of idle
  // ones.
  std::uint64_t shared_bytes() const;
  std::uint64_t idle_bytes() const;
  // Of the idle ones, those that are not pinned.
  std::uint64_t reclaimable_bytes() const;

  SegmentTotals totals() const;
  void CountAdoption(CompressedSegment* segment) {
    ++totals_.adoptions;
    ++segment->adoptions;
  }
  std::vector<SegmentDescription> Describe() const;
  std::uint64_t heap_bytes() const;

  // Owners of the frames of every size class, below its arena's end of live ones.
  using FrameOwners = std::map<const FramePool*, std::vector<std::uint32_t>>;

  // Stops the process unless segments are as they should be and `stood_on`, one for every sequence
  // that stands on one, are their owners. Adds the references that they hold to `owners`, in which
  // there are none of sequences yet.
  void CheckInvariants(std::span<const CompressedSegment* const> stood_on,
                       FrameOwners* owners) const;

 private:
  bool IsPinned(const CompressedSegment& segment) const { return segment.pinned_until > now_; }
  // The frames that freeing an idle segment gives back or makes cached.
  std::uint64_t BytesOf(const CompressedSegment& segment) const;
  void SetAge(CompressedSegment* segment) const;
  std::uint64_t Drop(CompressedSegment* segment);
  void ReleaseWindows(const CompressedSegment& segment) const;
  void ReleasePages(const CompressedSegment& segment) const;
  void Erase(const CompressedSegment* segment);
  void GiveBack(const CompressedSegment& segment);

  const CacheGeometry* const geometry_;
  PrefixIndex* const index_;
  HeapLedger* const ledger_;
  std::vector<std::unique_ptr<CompressedSegment>> segments_;
  std::size_t num_booked_ = 0;  // to come
  std::int64_t now_ = 0;        // milliseconds
  SegmentTotals totals_;        // the counters of it
};

}  // namespace swiftkv
