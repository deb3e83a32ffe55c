// SPDX-License-Identifier: Apache-2.0
// Orders what a compaction keeps of a sequence's tokens, and reports what it did. Layer: cache.
//
// A compaction replaces positions [0, end) of the layers without a window by a compressed segment:
// immutable pages of each (layer, kv head) that hold the tokens which that head keeps, at their
// original positions. Layers with a window are untouched. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "swiftkv/kv_format.h"

namespace swiftkv {

// What one kv head of one layer without a window keeps.
struct KeptHead {
  int layer = 0;
  int head = 0;
  // [formats] original positions below `end`, each list ascending, no position in two of them, and
  // only such that the head still holds.
  std::vector<std::vector<std::int32_t>> positions;
};

struct CompactionOrder {
  std::int64_t end = 0;           // a multiple of 16 in [16, Length()]; later tokens stay dense
  std::vector<KvFormat> formats;  // of kept pages; the first is usually the sequence's own
  std::vector<KeptHead> heads;    // one for every head of every layer without a window, any order
  // Says how the kept tokens were chosen, in a canonical way: policy, parameters, budget, the
  // statistics' fingerprint. Part of the segment's key.
  std::string recipe;
  // Whether the choice depends on nothing but tokens [0, end) and the recipe, all of which the
  // sequence holds dense: others of its scope then find the segment (KvCache::AdoptSegment).
  bool shareable = false;
};

struct CompactionResult {
  std::int64_t end = 0;             // of the segment
  std::int64_t kept_tokens = 0;     // in the segment, summed over heads
  std::int64_t dropped_tokens = 0;  // that heads held below `end` before and hold no more
  std::uint64_t source_bytes = 0;   // of the pages that the segment replaces
  std::uint64_t kept_bytes = 0;     // of the segment's pages and positions
  std::uint64_t mapped_before = 0;  // KvBalance::mapped_bytes; in pieces: once all is copied
  std::uint64_t mapped_after = 0;
  // Whether dense blocks were freed one by one as their survivors were copied; false where others
  // use or may find them, so that the segment was made beside them.
  bool in_place = false;
  bool findable = false;   // by others, which takes a sequence that shares and was told its tokens
  bool was_there = false;  // another sequence had made the same segment: it was taken
};

// One segment, as far as it is told.
struct SegmentDescription {
  std::string recipe;             // CompactionOrder::recipe; empty where nobody can find it
  KvFormat format;                // of the sequences that stand on it
  std::vector<KvFormat> formats;  // of its pages, as stored
  std::int64_t end = 0;           // tokens that it covers
  std::int64_t kept_tokens = 0;   // of these, that a head holds on average, rounded up
  std::uint64_t bytes = 0;        // of its pages
  std::uint32_t users = 0;        // sequences that stand on it
  std::uint64_t adoptions = 0;    // by sequences that found it
  bool findable = false;
};

// What a cache holds in segments.
struct SegmentTotals {
  std::uint64_t segments = 0;     // those included that are being made
  std::uint64_t findable = 0;     // of these
  std::uint64_t idle = 0;         // of the findable ones, those that no sequence stands on
  std::uint64_t users = 0;        // sequences that stand on one
  std::uint64_t page_bytes = 0;   // of all, each once
  std::uint64_t adoptions = 0;    // since the cache was made
  std::uint64_t evictions = 0;    // of idle ones, because memory was wanted
  std::uint64_t compactions = 0;  // that made a segment

  friend bool operator==(const SegmentTotals&, const SegmentTotals&) = default;
};

}  // namespace swiftkv
