// SPDX-License-Identifier: Apache-2.0
// Builds a segment's pages out of a sequence's blocks, and foretells the memory that this takes.
//
// Work goes block by block, oldest first: the survivors of 16 positions are copied to their heads'
// pages, then what held them is let go. Both classes below follow that order to the frame, so that
// what was foretold is what happens, and a compaction that has begun never fails.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/arena_forecast.h"
#include "cache/compressed_segment.h"
#include "cache/sequence_set.h"

namespace swiftkv {

struct CompactionSource {
  const CacheGeometry* geometry = nullptr;
  const Sequence* sequence = nullptr;
  bool frees_old = false;  // nobody else has or finds the segment that the sequence stands on

  const CompressedSegment* old() const { return sequence->segment; }
  std::int64_t old_end() const { return old() == nullptr ? 0 : old()->end; }
};

// Changes of the OS pages in use, in bytes.
struct MemoryForecast {
  std::int64_t peak_bytes = 0;   // the most at any time
  std::int64_t final_bytes = 0;  // at the end
  std::int64_t frame_bytes = 0;  // of that, what lies in frames: the rest others may use
};

// Foretells what a segment whose runs have their pools, and its copies of window frames, will cost.
MemoryForecast ForecastCompaction(const CompactionSource& source, const CompressedSegment& segment);

// The blocks of a group with a window that a query at `end` sees; none of other groups.
struct WindowBlocks {
  std::int64_t first = 0;
  std::int64_t end = 0;
};
WindowBlocks WindowsAt(const CacheGeometry& geometry, std::size_t group, std::int64_t end);

// Returns the first page of a run, from `first` on, that has a position from `end` on.
std::uint32_t PagesBelow(const CompressedSegment& segment, const SegmentRun& run,
                         std::uint32_t first, std::int64_t end);

class SegmentCopier {
 public:
  // Both outlive the copier, the sequence where it lies until MoveTo. The segment's runs have their
  // pools; pages that they do not have yet are allocated as they are written.
  SegmentCopier(const CompactionSource& source, CompressedSegment* segment);

  // Says where the sequence lies now.
  void MoveTo(const Sequence* sequence) { source_.sequence = sequence; }

  // Copies the survivors of positions [16 block, 16 block + 16), block after block. There is room.
  void CopyBlock(std::int64_t block);
  // Releases the pages of the old segment that have no position from `end` on any more.
  void ReleaseOldPages(std::int64_t end);

 private:
  // A page, and slots in it.
  struct Slots {
    const std::byte* page = nullptr;
    PageFormat format;
    PageLayout layout;
    std::vector<std::uint8_t> slots;
  };

  void CopyDense(const SegmentRun& run, std::int64_t block, std::uint32_t first, std::uint32_t end);
  void CopyOld(const SegmentRun& run, std::uint32_t first, std::uint32_t end);
  // Writes tokens to a run from its token `to` on.
  void Move(const Slots& from, const SegmentRun& run, std::uint32_t to);

  CompactionSource source_;
  CompressedSegment* const segment_;
  std::vector<std::uint32_t> copied_;      // [runs] tokens
  std::vector<std::uint32_t> old_tokens_;  // [old runs] the first at or after the block
  std::vector<std::uint32_t> old_freed_;   // [old runs] pages
  Slots scratch_;
};

// A compaction that goes on piece by piece beside what it will replace, which stays as it is until
// the end: so it can be given up at any time.
struct CompactionDraft {
  CompressedSegment* segment;  // in the store, with one owner, for nobody to find
  SegmentCopier copier;
  std::int64_t next_block = 0;   // blocks before it were copied
  std::uint64_t name_bytes = 0;  // on the heap, booked for the name that it gets in the end
};

}  // namespace swiftkv
