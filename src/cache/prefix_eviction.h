// SPDX-License-Identifier: Apache-2.0
// Orders what the prefix index may evict: by recompute cost per byte, and by age.
//
// An entry's age is the queue's clock when it was last used, plus what it costs to compute again
// per byte of it; the lowest goes first, and the clock moves to the age of what went (GreedyDual-
// Size, Cao and Irani 1997). So equal entries leave in the order of their last use, and one that is
// twice as dear stays through twice as much eviction. A binary heap: O(log n).
#pragma once

#include <cstdint>

#include "cache/charged_array.h"
#include "cache/prefix_tree.h"

namespace swiftkv {

class EvictionQueue {
 public:
  // `tree` outlives the queue: nodes hold their position in it. Errors: ResourceExhausted.
  Status Open(PrefixTree* tree, MemoryBudget* budget);

  // Makes room for all nodes of ids below `count`; false where the budget has none.
  [[nodiscard]] bool TryGrow(std::uint32_t count) { return items_.TryGrow(count); }
  void Shrink(std::uint32_t count);

  // Puts a node in, or in another place.
  void Put(NodeId id, double age);
  // Takes a node out if it is in.
  void Take(NodeId id);

  bool empty() const { return size_ == 0; }
  // The node to go first.
  NodeId first() const { return items_[0].node; }
  double age(NodeId id) const { return items_[(*tree_)[id].queue_position].age; }

  // Moves the clock to the age of what is evicted.
  void Advance(double age) { clock_ = age > clock_ ? age : clock_; }
  double clock() const { return clock_; }

  std::uint32_t size() const { return size_; }
  std::uint64_t metadata_bytes() const { return items_.charged_bytes(); }

  // Stops the process unless the heap is one and nodes know their places.
  void CheckInvariants() const;

 private:
  struct Item {
    double age;
    NodeId node;
  };

  void Place(std::uint32_t position, const Item& item);
  void SiftUp(std::uint32_t position, const Item& item);
  void SiftDown(std::uint32_t position, const Item& item);

  PrefixTree* tree_ = nullptr;
  ChargedArray<Item> items_;  // [>= size_]
  std::uint32_t size_ = 0;
  double clock_ = 0;
};

// Returns what block `block` costs to compute again, in tokens' worth of work without attention.
// `full_share` is the fraction of layers that see everything: their work grows with the position.
double RecomputeCost(std::int64_t block, double full_share);

}  // namespace swiftkv
