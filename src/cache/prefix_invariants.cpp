// SPDX-License-Identifier: Apache-2.0
// Recounts the prefix index from its nodes and frames and compares with what it counts as it goes.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "cache/prefix_index.h"

namespace swiftkv {

std::uint64_t PrefixIndex::CountFrames() const {
  std::uint64_t count = 0;
  for (NodeId id = 0; id < tree_.end_of_nodes(); ++id) {
    if (!tree_.IsNode(id)) continue;
    for (std::size_t group = 0; group < groups(); ++group) {
      if (tree_.frames(id)[group] != Arena::kNoFrame) ++count;
    }
  }
  return count;
}

void PrefixIndex::CheckNode(NodeId id) const {
  const PrefixNode& node = tree_[id];
  std::uint32_t full_in_use = 0;
  std::uint32_t window_in_use = 0;
  for (std::size_t group = 0; group < groups(); ++group) {
    const std::uint32_t frame = tree_.frames(id)[group];
    if (frame == Arena::kNoFrame) {
      SKV_CHECK(!node.published || has_window(group), "a findable block lacks a frame");
      continue;
    }
    SKV_CHECK(node.published, "a block that is not findable keeps a frame");
    const FramePool& frames = pool(id, group);
    SKV_CHECK(frames.keeper_tag(frame) == id * groups() + group + 1);
    if (frames.references(frame) > 0) ++(has_window(group) ? window_in_use : full_in_use);
  }
  SKV_CHECK(node.full_in_use == full_in_use && node.window_in_use == window_in_use);
  SKV_CHECK(node.published || node.standing > 0 || node.first_child != kNoNode,
            "nothing needs a node");
  std::uint32_t published = 0;
  std::uint32_t held = 0;
  for (NodeId child = node.first_child; child != kNoNode; child = tree_[child].next_sibling) {
    if (tree_[child].published) ++published;
    if (IsHeld(tree_[child])) ++held;
    SKV_CHECK(tree_[child].counts_as_held == IsHeld(tree_[child]));
  }
  SKV_CHECK(node.published_children == published && node.held_children == held);
  SKV_CHECK(node.published || node.is_root() || published == 0, "a leaf was not evicted first");
  SKV_CHECK(node.window_pinned_until <= node.pinned_until);
  SKV_CHECK(IsPinned(node) == (node.pinned_until != 0), "a pin's end was not noticed");
  SKV_CHECK(node.reclaimable_bytes == ReclaimableBytes(id));
  const bool may_go = MayGoWhole(node) || (MayLoseWindow(node) && FramesOf(id).window_bytes > 0);
  SKV_CHECK((node.queue_position != UINT32_MAX) == may_go, "the eviction queue is out of date");
}

void PrefixIndex::CheckPins() const {
  std::vector<std::int64_t> until(tree_.end_of_nodes());
  for (const Pin& pin : pins_) {
    SKV_CHECK(pin.until > now_ && pin.until >= next_expiry_);
    for (NodeId at = pin.end; !tree_[at].is_root(); at = tree_[at].parent) {
      SKV_CHECK(tree_[at].published, "a pinned block cannot be found");
      until[at] = std::max(until[at], pin.until);
    }
  }
  std::uint64_t blocks = 0;
  for (NodeId id = 0; id < tree_.end_of_nodes(); ++id) {
    if (!tree_.IsNode(id)) continue;
    SKV_CHECK(tree_[id].pinned_until == until[id], "a block is pinned by no pin, or not by one");
    if (until[id] != 0) ++blocks;
  }
  SKV_CHECK(blocks == pinned_blocks_);
}

void PrefixIndex::CheckInvariants(std::span<const NodeId> standing) const {
  tree_.CheckInvariants();
  queue_.CheckInvariants();
  std::vector<std::uint32_t> sequences(tree_.end_of_nodes());
  for (const NodeId id : standing) ++sequences[id];
  std::uint64_t reclaimable = 0;
  std::uint32_t queued = 0;
  for (NodeId id = 0; id < tree_.end_of_nodes(); ++id) {
    if (!tree_.IsNode(id)) continue;
    CheckNode(id);
    SKV_CHECK(tree_[id].standing == sequences[id], "a node counts its sequences wrongly");
    reclaimable += tree_[id].reclaimable_bytes;
    if (tree_[id].queue_position != UINT32_MAX) ++queued;
  }
  SKV_CHECK(reclaimable == reclaimable_bytes_ && queued == queue_.size());
  CheckPins();
}

}  // namespace swiftkv
