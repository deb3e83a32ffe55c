// SPDX-License-Identifier: Apache-2.0
// Lays out one frame for every layer group.
#include "cache/block_layout.h"

#include <set>
#include <utility>

#include "cache/mapped_range.h"

namespace swiftkv {

BlockLayout BlockLayout::For(const CacheGeometry& geometry, FormatMap formats) {
  BlockLayout layout;
  layout.formats = std::move(formats);
  layout.places.resize(geometry.layers.size());
  layout.frame_bytes.reserve(geometry.groups.size());
  for (std::size_t g = 0; g < geometry.groups.size(); ++g) {
    const LayerGroup& group = geometry.groups[g];
    const FrameLayout frame = PlaceLayers(group, static_cast<int>(g), layout.formats);
    for (std::size_t i = 0; i < group.layers.size(); ++i) {
      layout.places[static_cast<std::size_t>(group.layers[i])] = frame.places[i];
    }
    layout.frame_bytes.push_back(frame.frame_bytes);
  }
  return layout;
}

std::uint64_t BlockLayout::block_bytes() const {
  std::uint64_t bytes = 0;
  for (const std::size_t frame : frame_bytes) bytes += frame;
  return bytes;
}

std::uint64_t BlockLayout::heap_bytes() const {
  return formats.heap_bytes() + places.capacity() * sizeof(LayerPlace) +
         frame_bytes.capacity() * sizeof(std::size_t);
}

std::uint64_t SmallestBound(const BlockLayout& open, const BlockLayout& sealed) {
  constexpr std::size_t kPagesOfBookkeeping = 3;   // bitmap, page counts, reference counts
  constexpr std::size_t kHeapBytesOfGroup = 1024;  // one sequence's table, upper bitmap levels
  const std::size_t groups = open.frame_bytes.size();
  const std::set<std::size_t> size_classes(open.frame_bytes.begin(), open.frame_bytes.end());
  std::uint64_t pages =
      OsPages((groups + 1) * kHeapBytesOfGroup + open.heap_bytes() + sealed.heap_bytes());
  for (const std::size_t frame : open.frame_bytes) pages += OsPages(frame);
  pages += kPagesOfBookkeeping * size_classes.size();
  return pages * OsPageBytes();
}

}  // namespace swiftkv
