// SPDX-License-Identifier: Apache-2.0
// Holds one entry of the prefix index: a block's name, its place in the tree, and who needs it.
//
// A node is identified by (key, format, grade). It is published while the index holds frames for
// it, and only then findable; a sequence that has named a block which it may not publish yet keeps
// the node alive without. A root has no tokens: it stands for position 0 of one scope and format,
// or for the end of a compressed segment, whose lineage its key then is.
#pragma once

#include <array>
#include <cstdint>

#include "cache/block_key.h"
#include "cache/cache_formats.h"
#include "swiftkv/page_layout.h"
#include "swiftkv/quality.h"

namespace swiftkv {

using NodeId = std::uint32_t;
inline constexpr NodeId kNoNode = UINT32_MAX;

struct PrefixNode {
  BlockKey key;
  std::array<std::int32_t, kPageTokens> tokens;
  const StoredFormat* format;
  NodeId parent;       // the block before, in a grade that is no worse; kNoNode for a root
  NodeId first_child;  // the newest
  NodeId next_sibling;
  NodeId previous_sibling;
  NodeId next_in_bucket;
  NodeId toward;           // scratch: the child through which a path leads down
  std::int32_t block;      // of a root: the one before its children's, -1 at position 0
  std::uint32_t standing;  // sequences whose last named block this is
  std::uint32_t published_children;
  std::uint32_t held_children;   // children that are held
  std::uint32_t full_in_use;     // frames of groups that see everything, with owners
  std::uint32_t window_in_use;   // frames of groups with a window, with owners
  std::uint32_t queue_position;  // in EvictionQueue
  double age;                    // of the block in EvictionQueue's measure
  double window_age;             // of its window frames alone
  std::int64_t pinned_until;     // milliseconds
  std::int64_t window_pinned_until;
  std::uint64_t reclaimable_bytes;  // as counted in the index's sum
  Quality grade;
  bool published;
  bool counts_as_held;  // in the parent's held_children

  bool is_root() const { return parent == kNoNode; }
};

}  // namespace swiftkv
