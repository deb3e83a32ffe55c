// SPDX-License-Identifier: Apache-2.0
// Joins neighbouring stretches of the same readers into chunks.
#include "attention/cascade.h"

#include <algorithm>
#include <cstdint>

namespace swiftkv {
namespace {

// What stretches of one chunk have in common.
struct ChunkKey {
  int group;
  int run;
  std::int64_t index;

  friend bool operator==(const ChunkKey&, const ChunkKey&) = default;
};

// Notes the number that the group's first chunk has among the chunks of `reader`.
void NumberMember(const CascadeGroup& group, int reader, int first_chunk, Cascade* cascade) {
  const auto begin = cascade->members.begin();
  const auto member = std::find_if(begin + group.first_member, begin + group.end_member,
                                   [&](const CascadeMember& m) { return m.reader == reader; });
  member->first_chunk = first_chunk;
}

}  // namespace

Cascade MakeCascade(std::span<const PageReader> readers, const StretchList& list,
                    const SharedPages& shared, int chunk_pages) {
  Cascade cascade;
  for (int g = 0; g < shared.num_groups(); ++g) {
    const int first = static_cast<int>(cascade.members.size());
    for (const int reader : shared.members(g)) cascade.members.push_back({reader, 0});
    cascade.groups.push_back({first, static_cast<int>(cascade.members.size()), 0, 0});
  }
  for (std::size_t r = 0; r < readers.size(); ++r) {
    ChunkKey current{-1, 0, 0};
    int number = 0;
    for (int i = readers[r].first_stretch; i < readers[r].end_stretch; ++i) {
      const PageStretch& stretch = list.stretches[static_cast<std::size_t>(i)];
      const int g = shared.group(i);
      CascadeGroup& group = cascade.groups[static_cast<std::size_t>(g)];
      const bool reads = shared.members(g).front() == static_cast<int>(r);
      const ChunkKey key{g, stretch.key.run, stretch.key.index / (chunk_pages / kUnitPages)};
      if (g != current.group) {
        NumberMember(group, static_cast<int>(r), number, &cascade);
        if (reads) group.first_chunk = group.end_chunk = static_cast<int>(cascade.chunks.size());
      }
      if (key != current) {
        ++number;
        if (reads) {
          cascade.chunks.push_back({i, i, {}});
          ++group.end_chunk;
        }
      }
      current = key;
      if (!reads) continue;
      cascade.chunks.back().end_stretch = i + 1;
      cascade.chunks.back().amount.pages += stretch.pages;
      cascade.chunks.back().amount.bytes += stretch.bytes;
    }
    cascade.num_chunks.push_back(number);
  }
  return cascade;
}

}  // namespace swiftkv
