// SPDX-License-Identifier: Apache-2.0
// Keeps computed blocks findable by their tokens, and evicts them when memory is wanted.
//
// Owner: SequenceSet. The index holds frames as their keeper (cache/frame_pool.h), never as an
// owner: a frame that sequences use stays theirs whatever the index does, and one that none uses is
// cached. Invariants:
// - A published node has a frame in every group that sees everything; frames of groups with a
//   window may be evicted before. Frames never change while they are held.
// - The parent of a published node is published or a root: leaves are evicted first, so whatever is
//   findable is reachable, and its parent's grade is no worse than its own.
// - A node is held while one of its frames has an owner, while it is pinned, and while a child is
//   held. Nodes that are not held can all be evicted, children first; reclaimable_bytes() are their
//   frames and the window frames of others that nobody uses or pins.
// - What is in the eviction queue can go at once: leaves that are not held, and of the other nodes
//   the window frames alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/cache_geometry.h"
#include "cache/evicted_keys.h"
#include "cache/prefix_beginnings.h"
#include "cache/prefix_eviction.h"
#include "cache/prefix_tree.h"
#include "swiftkv/prefix_sharing.h"

namespace swiftkv {

class PrefixIndex final : public FrameKeeper {
 public:
  // What readers of one format and level may take of a block.
  struct Wanted {
    const StoredFormat* format = nullptr;  // null: one that no sequence has had
    Quality allowed = Quality::kExact;
  };

  // All three outlive the index.
  PrefixIndex(const CacheGeometry* geometry, MemoryBudget* budget, HeapLedger* ledger);
  // Errors: ResourceExhausted.
  Status Open();

  const PrefixTree& tree() const { return tree_; }
  const EvictedKeys& evicted_keys() const { return evicted_; }

  // Returns the size class of a node's frame in a group.
  FramePool& pool(NodeId id, std::size_t group) const;

  // Returns the published node of the best grade that is wanted, or kNoNode.
  NodeId FindPublished(const BlockKey& key, std::span<const std::int32_t> tokens,
                       const Wanted& wanted) const;

  // Whether a first block of these 16 tokens may be findable under any salts; false is certain.
  bool MayKnowBeginning(std::span<const std::int32_t> tokens) const {
    return beginnings_.MayContain(tokens);
  }

  // Names. A root stands before block `first_block`: 0, or where a segment ends whose lineage its
  // key is. Return kNoNode where the budget has no room for the node (or, never seen yet, another
  // block has the same key). The caller then stands on the node, or it may go at the next call.
  [[nodiscard]] NodeId TryRoot(const BlockKey& key, const StoredFormat* format,
                               std::int64_t first_block = 0);
  // The block of 16 `tokens` after `parent`: published in `grade` or a better one, or to be.
  [[nodiscard]] NodeId TryChild(NodeId parent, std::span<const std::int32_t> tokens, Quality grade);
  void Stand(NodeId id) { ++tree_[id].standing; }
  void Leave(NodeId id);

  // Returns the node of block `block` on the path that ends in `id`, and points every `toward`
  // between the two down the path.
  NodeId MarkPath(NodeId id, std::int64_t block);

  // Whether TryPublish would keep the invariant about parents.
  bool MayPublish(NodeId id) const;
  // Makes a node findable with frames [groups] of one sequence, or adds those that it lacks;
  // Arena::kNoFrame where the sequence has none. False, and no change, where the budget has no
  // room.
  [[nodiscard]] bool TryPublish(NodeId id, std::span<const std::uint32_t> frames);

  // Window frames that lose their last owner between these calls have left a window: they are worth
  // less than those of a sequence that ends.
  void BeginSliding() { sliding_ = true; }
  void EndSliding() { sliding_ = false; }

  // Evicts what is worth least; false where nothing is left that can go.
  bool EvictNext();
  std::uint64_t reclaimable_bytes() const { return reclaimable_bytes_; }
  // The age of what EvictNext would take, and the queue's clock, which moves to the age of what
  // went (cache/prefix_eviction.h). There is such a thing while evicts_next().
  bool evicts_next() const { return !queue_.empty(); }
  double next_age() const { return queue_.age(queue_.first()); }
  double clock() const { return queue_.clock(); }
  void Advance(double age) { queue_.Advance(age); }

  // Keeps what a hit that ends with node `id` needs until a time. False, and no change, where the
  // budget has no room to note it.
  [[nodiscard]] bool TryPin(NodeId id, std::int64_t until);
  // Ends the pins of prefixes that end with a block of this key; false where there are none.
  bool Unpin(const BlockKey& end, const StoredFormat* format);
  void SetTime(std::int64_t milliseconds);
  PinnedPrefixes pinned() const { return {pins_.size(), pinned_blocks_}; }

  // Forgets everything, or everything below the roots of a key; returns how many blocks were
  // findable. No sequence stands there any more.
  std::uint64_t Clear();
  std::uint64_t Clear(const BlockKey& root);

  PrefixCounters& counters() { return counters_; }
  const PrefixCounters& counters() const { return counters_; }

  // Charged to the budget by the arrays themselves, and to the ledger.
  std::uint64_t metadata_bytes() const { return tree_.metadata_bytes() + queue_.metadata_bytes(); }
  std::uint64_t heap_bytes() const {
    return tree_.heap_bytes() + evicted_.heap_bytes() + pins_.capacity() * sizeof(Pin);
  }

  void FrameIsIdle(std::uint32_t tag) override;
  void FrameIsTaken(std::uint32_t tag) override;

  // Returns the frames that nodes hold. O(nodes).
  std::uint64_t CountFrames() const;

  // Stops the process unless everything that is counted equals what is there. `standing` names the
  // last node of every sequence that has one. O(nodes).
  void CheckInvariants(std::span<const NodeId> standing) const;

 private:
  // A prefix that ends with node `end`.
  struct Pin {
    NodeId end = kNoNode;
    std::int64_t until = 0;  // milliseconds
  };

  struct FramesOfNode {
    std::uint64_t full_bytes = 0;
    std::uint64_t window_bytes = 0;
    bool lacks_window = false;  // a window group has no frame
  };

  std::size_t groups() const { return geometry_->groups.size(); }
  bool has_window(std::size_t group) const { return geometry_->window(group) != 0; }
  FramesOfNode FramesOf(NodeId id) const;
  bool IsPinned(const PrefixNode& node) const { return node.pinned_until > now_; }
  bool IsHeld(const PrefixNode& node) const;
  bool MayGoWhole(const PrefixNode& node) const;
  bool MayLoseWindow(const PrefixNode& node) const;
  std::uint64_t ReclaimableBytes(NodeId id) const;
  void SetAge(NodeId id, bool window_only);

  // Brings everything derived from a node's state up to date, its ancestors' included.
  void Refresh(NodeId id);
  void Requeue(NodeId id);
  bool TryKeepFrames(NodeId id, std::span<const std::uint32_t> frames);
  void CountUse(NodeId id);
  void ForgetFrames(NodeId id, bool window_only);
  void Unpublish(NodeId id);
  // Removes nodes that nothing needs any more, from `id` upwards.
  void Prune(NodeId id);
  std::uint64_t ClearBelow(NodeId root);
  [[nodiscard]] bool TryAddPin(const Pin& pin);
  void Mark(const Pin& pin);
  void RefreshPath(NodeId id);
  void EndPins(std::size_t first);
  void CheckNode(NodeId id) const;
  void CheckPins() const;

  const CacheGeometry* const geometry_;
  MemoryBudget* const budget_;
  HeapLedger* const ledger_;
  double full_share_ = 0;  // of layers that see everything
  PrefixTree tree_;
  EvictionQueue queue_;
  EvictedKeys evicted_;
  PrefixBeginnings beginnings_;
  std::vector<Pin> pins_;                 // later than now_, one for each end, in no order
  std::uint64_t pinned_blocks_ = 0;       // nodes on a path to the end of a pin
  std::int64_t now_ = 0;                  // milliseconds
  std::int64_t next_expiry_ = INT64_MAX;  // when the first pin ends
  std::uint64_t reclaimable_bytes_ = 0;
  bool sliding_ = false;
  PrefixCounters counters_;
};

}  // namespace swiftkv
