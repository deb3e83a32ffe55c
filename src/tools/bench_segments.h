// SPDX-License-Identifier: Apache-2.0
// Says what a bench's sequences keep where they stand on compressed segments, and where it lies:
// heads keep unlike numbers of whole pages, and the newest tokens stay dense.
#pragma once

#include <cstdint>
#include <vector>

namespace swiftkv {

struct BenchPagesSpec;

struct SegmentPages {
  int end_page = 0;       // where the dense tail begins, in pages of the context
  int tail_pages = 0;     // of 16 tokens each, the last one perhaps partial
  std::vector<int> kept;  // [kv_heads] pages of the segment, rising; each layer gives them to other
                          // heads
  // Pages of a sequence in a layer, all heads and the tail together.
  int total() const;
};

// Cuts a context of which the fraction `removed` is dropped, the tail being kept whole. Heads keep
// from half to one and a half times the mean, as far as they can.
SegmentPages SegmentPagesOf(const BenchPagesSpec& spec);

// Returns the pages that a head of a layer keeps.
int KeptPages(const SegmentPages& pages, int layer, int head);

// Returns the frames, of a page each and from `first` on, of all segments: [turns, layers, batch,
// heads, kept pages]. They are numbered as a compaction takes them, which walks over positions and
// fills pages of all layers and heads side by side; stretches of as many pages as a dense frame has
// are shuffled where dense frames are.
std::vector<std::uint32_t> PlaceSegmentPages(const BenchPagesSpec& spec, const SegmentPages& pages,
                                             std::uint32_t first);

// Returns rising positions, [kv_heads, end_page * 16], of which a head's first ones are its own.
std::vector<std::int32_t> SpreadPositions(const SegmentPages& pages);

}  // namespace swiftkv
