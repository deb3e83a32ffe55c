// SPDX-License-Identifier: Apache-2.0
// Follows who needs a block of the index: what is in use, pinned, reclaimable, and what goes first.
#include <algorithm>

#include "base/check.h"
#include "cache/prefix_index.h"

namespace swiftkv {

PrefixIndex::FramesOfNode PrefixIndex::FramesOf(NodeId id) const {
  FramesOfNode result;
  for (std::size_t group = 0; group < groups(); ++group) {
    if (tree_.frames(id)[group] == Arena::kNoFrame) {
      result.lacks_window = true;
      continue;
    }
    const std::uint64_t bytes = pool(id, group).arena().frame_bytes();
    (has_window(group) ? result.window_bytes : result.full_bytes) += bytes;
  }
  return result;
}

bool PrefixIndex::IsHeld(const PrefixNode& node) const {
  return node.held_children > 0 || (node.published && (node.full_in_use + node.window_in_use > 0 ||
                                                       node.pinned_until > now_));
}

bool PrefixIndex::MayGoWhole(const PrefixNode& node) const {
  return node.published && node.published_children == 0 && !IsHeld(node);
}

bool PrefixIndex::MayLoseWindow(const PrefixNode& node) const {
  return node.published && node.window_in_use == 0 && node.window_pinned_until <= now_;
}

std::uint64_t PrefixIndex::ReclaimableBytes(NodeId id) const {
  const PrefixNode& node = tree_[id];
  if (!node.published) return 0;
  const FramesOfNode frames = FramesOf(id);
  return (IsHeld(node) ? 0 : frames.full_bytes) + (MayLoseWindow(node) ? frames.window_bytes : 0);
}

void PrefixIndex::Refresh(NodeId id) {
  for (;;) {
    PrefixNode& node = tree_[id];
    const bool held = IsHeld(node);
    const std::uint64_t bytes = ReclaimableBytes(id);
    reclaimable_bytes_ += bytes - node.reclaimable_bytes;
    node.reclaimable_bytes = bytes;
    Requeue(id);
    if (held == node.counts_as_held || node.is_root()) return;
    node.counts_as_held = held;
    PrefixNode& parent = tree_[node.parent];
    held ? ++parent.held_children : --parent.held_children;
    id = node.parent;
  }
}

void PrefixIndex::Requeue(NodeId id) {
  const PrefixNode& node = tree_[id];
  const FramesOfNode frames = node.published ? FramesOf(id) : FramesOfNode{};
  if (MayGoWhole(node)) {
    // A last block that no hit can end in is of no use.
    queue_.Put(id, frames.lacks_window ? 0 : node.age);
  } else if (MayLoseWindow(node) && frames.window_bytes > 0) {
    queue_.Put(id, node.window_age);
  } else {
    queue_.Take(id);
  }
}

void PrefixIndex::SetAge(NodeId id, bool window_only) {
  PrefixNode& node = tree_[id];
  const FramesOfNode frames = FramesOf(id);
  const double cost = RecomputeCost(node.block, full_share_);
  const auto bytes = static_cast<double>(frames.full_bytes + frames.window_bytes);
  node.window_age = queue_.clock() + (sliding_ || bytes == 0 ? 0 : cost / bytes);
  if (!window_only) node.age = queue_.clock() + (bytes == 0 ? 0 : cost / bytes);
}

void PrefixIndex::FrameIsIdle(std::uint32_t tag) {
  const NodeId id = (tag - 1) / static_cast<std::uint32_t>(groups());
  PrefixNode& node = tree_[id];
  const bool window = has_window((tag - 1) % groups());
  --(window ? node.window_in_use : node.full_in_use);
  SetAge(id, window && sliding_);
  Refresh(id);
}

void PrefixIndex::FrameIsTaken(std::uint32_t tag) {
  const NodeId id = (tag - 1) / static_cast<std::uint32_t>(groups());
  PrefixNode& node = tree_[id];
  ++(has_window((tag - 1) % groups()) ? node.window_in_use : node.full_in_use);
  Refresh(id);
}

}  // namespace swiftkv
