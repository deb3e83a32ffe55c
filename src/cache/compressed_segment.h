// SPDX-License-Identifier: Apache-2.0
// Describes a compressed segment: which tokens each head keeps of positions [0, end), and where.
//
// Owner: SegmentStore. Invariants:
// - Runs are sorted by layer, then head; there are runs of layers without a window alone, and of a
//   head no two in one page format. A head that keeps nothing has none.
// - A run's positions ascend and lie below `end`; two runs of a head share none.
// - A page is a frame of the size class of one page's bytes, whose one owner is the segment. Its
//   bytes never change. Sequences that stand on the segment count in `owners`, not in its frames.
// - A findable segment also holds what layers with a window see at `end`, for those who begin
//   there: whole frames, as one more owner of each, none of which the prefix index keeps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/block_key.h"
#include "cache/cache_formats.h"
#include "cache/page_table.h"
#include "swiftkv/page_layout.h"

namespace swiftkv {

// What one head keeps in one page format.
struct SegmentRun {
  int layer = 0;
  int head = 0;
  PageFormat format;
  PageLayout layout;
  FramePool* pool = nullptr;
  std::uint32_t first_page = 0;   // in CompressedSegment::frames
  std::uint32_t first_token = 0;  // in CompressedSegment::positions
  std::uint32_t num_tokens = 0;   // >= 1

  std::uint32_t num_pages() const { return (num_tokens + kPageTokens - 1) / kPageTokens; }
};

// What others find a segment by.
struct SegmentName {
  BlockKey scope;                    // root key of those who may find it
  BlockKey key;                      // of the dense tokens and the recipe
  BlockKey lineage;                  // root key of what is computed on top
  std::string recipe;                // how the kept tokens were chosen
  std::vector<std::int32_t> tokens;  // [end]
};

struct CompressedSegment {
  const StoredFormat* format = nullptr;  // of sequences that stand on it
  std::int64_t end = 0;                  // tokens; a multiple of 16
  std::vector<SegmentRun> runs;
  std::vector<std::uint32_t> first_run;  // [layers + 1] where a layer's runs begin
  std::vector<std::uint32_t> frames;     // of all runs' pages
  std::vector<std::int32_t> positions;   // of all runs' tokens
  std::uint64_t page_bytes = 0;          // of frames
  std::uint32_t owners = 0;              // sequences that stand on it
  std::uint64_t adoptions = 0;           // by sequences that found it

  bool findable = false;           // what follows is empty otherwise
  std::vector<PageTable> windows;  // [groups]; empty for groups without a window
  SegmentName name;
  double age = 0;                 // of a findable one without owners, in EvictionQueue's measure
  std::int64_t pinned_until = 0;  // milliseconds

  std::span<const SegmentRun> RunsOf(int layer) const {
    const auto at = static_cast<std::size_t>(layer);
    return std::span(runs).subspan(first_run[at], first_run[at + 1] - first_run[at]);
  }
  std::span<const std::int32_t> PositionsOf(const SegmentRun& run) const {
    return std::span(positions).subspan(run.first_token, run.num_tokens);
  }
  std::span<const std::uint32_t> FramesOf(const SegmentRun& run) const {
    return std::span(frames).subspan(run.first_page, run.num_pages());
  }

  // What it books on the heap, the rooms of its window tables apart.
  std::uint64_t heap_bytes() const {
    return sizeof(CompressedSegment) + runs.capacity() * sizeof(SegmentRun) +
           (first_run.capacity() + frames.capacity()) * sizeof(std::uint32_t) +
           (positions.capacity() + name.tokens.capacity()) * sizeof(std::int32_t) +
           windows.capacity() * sizeof(PageTable) + name.recipe.capacity();
  }
};

}  // namespace swiftkv
