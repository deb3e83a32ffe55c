// SPDX-License-Identifier: Apache-2.0
// Stores the nodes of the prefix index: a tree by tokens, and a hash table by key.
//
// Owner: PrefixIndex. Nodes take the lowest free ids, so that what the highest ones leave goes back
// to the OS; nodes and frame lists are charged to the budget, buckets to the ledger. Two nodes may
// have one key (formats, grades), never one key with different tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/charged_array.h"
#include "cache/frame_bitmap.h"
#include "cache/heap_ledger.h"
#include "cache/prefix_node.h"

namespace swiftkv {

class PrefixTree {
 public:
  // What a new node is.
  struct Name {
    BlockKey key;
    std::span<const std::int32_t> tokens;  // [16]; empty for a root
    const StoredFormat* format = nullptr;
    Quality grade = Quality::kExact;
    std::int32_t first_block = 0;  // of a root: the block that its children are
  };

  // Reserves addresses for as many nodes as may be, with `groups` frames each. Both pointers
  // outlive the tree. Errors: ResourceExhausted.
  Status Open(std::size_t groups, MemoryBudget* budget, HeapLedger* ledger);

  // Adds a node under `parent` (kNoNode makes a root); kNoNode, and no change, where the budget has
  // no room.
  [[nodiscard]] NodeId TryAdd(const Name& name, NodeId parent);

  // Removes a node without children.
  void Remove(NodeId id);

  PrefixNode& operator[](NodeId id) { return nodes_[id]; }
  const PrefixNode& operator[](NodeId id) const { return nodes_[id]; }
  // [groups] frames, Arena::kNoFrame where the index holds none.
  std::uint32_t* frames(NodeId id) { return &frames_[std::size_t{id} * groups_]; }
  const std::uint32_t* frames(NodeId id) const { return &frames_[std::size_t{id} * groups_]; }

  // Returns a node of this key, and from it the next one, or kNoNode.
  NodeId First(const BlockKey& key) const;
  NodeId NextOfKey(NodeId id) const;
  // Returns the root of a key and format.
  NodeId FindRoot(const BlockKey& key, const StoredFormat* format) const;
  // Returns the node of exactly this name, or kNoNode; also where its tokens are others.
  NodeId Find(const Name& name) const;

  NodeId newest_root() const { return first_root_; }
  std::uint32_t num_nodes() const { return num_nodes_; }
  std::uint32_t end_of_nodes() const { return end_; }
  std::uint32_t capacity() const { return capacity_; }
  bool IsNode(NodeId id) const { return used_.IsUsed(id); }

  // Charged to the budget by the arrays themselves.
  std::uint64_t metadata_bytes() const;
  // Charged to the ledger.
  std::uint64_t heap_bytes() const;

  // Stops the process unless links, buckets and counts agree. O(nodes).
  void CheckInvariants() const;

 private:
  NodeId Match(NodeId id, const BlockKey& key) const;
  NodeId& HeadOf(const BlockKey& key);
  bool TryGrowFor(NodeId id);
  void ShrinkToFit();
  // Moves to a table of another size where the ledger has room for it.
  bool TryResizeBuckets(std::size_t count);
  void Link(NodeId id, NodeId parent);
  void Unlink(NodeId id);

  std::size_t groups_ = 0;
  HeapLedger* ledger_ = nullptr;
  FrameBitmap used_;                    // [end_]
  ChargedArray<PrefixNode> nodes_;      // [end_]
  ChargedArray<std::uint32_t> frames_;  // [end_, groups_]
  std::vector<NodeId> buckets_;         // a power of two, or empty
  NodeId first_root_ = kNoNode;
  std::uint32_t num_nodes_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint32_t end_ = 0;  // one more than the highest node
};

}  // namespace swiftkv
