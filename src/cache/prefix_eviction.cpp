// SPDX-License-Identifier: Apache-2.0
// Keeps the heap of evictable entries.
#include "cache/prefix_eviction.h"

#include "base/check.h"
#include "base/status_macros.h"

namespace swiftkv {
namespace {

constexpr std::uint32_t kNotQueued = UINT32_MAX;

// The position at which attention to all tokens before costs as much as all the rest of a token:
// six times the model's width, for widths from 576 to 4,096.
constexpr double kEvenPosition = 8192;

}  // namespace

double RecomputeCost(std::int64_t block, double full_share) {
  const double position = static_cast<double>(block) * kPageTokens;
  return kPageTokens * (1 + full_share * position / kEvenPosition);
}

Status EvictionQueue::Open(PrefixTree* tree, MemoryBudget* budget) {
  tree_ = tree;
  SKV_ASSIGN_OR_RETURN(
      items_, ChargedArray<Item>::Create(tree->capacity(), "swiftkv eviction queue", budget));
  return Status::Ok();
}

void EvictionQueue::Shrink(std::uint32_t count) {
  SKV_CHECK(size_ <= count, "a node of the queue is gone");
  items_.Shrink(count);
}

void EvictionQueue::Place(std::uint32_t position, const Item& item) {
  items_[position] = item;
  (*tree_)[item.node].queue_position = position;
}

void EvictionQueue::SiftUp(std::uint32_t position, const Item& item) {
  while (position > 0) {
    const std::uint32_t above = (position - 1) / 2;
    if (items_[above].age <= item.age) break;
    Place(position, items_[above]);
    position = above;
  }
  Place(position, item);
}

void EvictionQueue::SiftDown(std::uint32_t position, const Item& item) {
  for (;;) {
    std::uint32_t below = 2 * position + 1;
    if (below >= size_) break;
    if (below + 1 < size_ && items_[below + 1].age < items_[below].age) ++below;
    if (items_[below].age >= item.age) break;
    Place(position, items_[below]);
    position = below;
  }
  Place(position, item);
}

void EvictionQueue::Put(NodeId id, double age) {
  std::uint32_t position = (*tree_)[id].queue_position;
  if (position == kNotQueued) {
    SKV_CHECK(size_ < items_.size(), "room is made with the node");
    SiftUp(size_++, {age, id});
    return;
  }
  if (age <= items_[position].age) {
    SiftUp(position, {age, id});
  } else {
    SiftDown(position, {age, id});
  }
}

void EvictionQueue::Take(NodeId id) {
  const std::uint32_t position = (*tree_)[id].queue_position;
  if (position == kNotQueued) return;
  (*tree_)[id].queue_position = kNotQueued;
  const Item last = items_[--size_];
  if (position == size_) return;
  const bool rises = position > 0 && last.age < items_[(position - 1) / 2].age;
  if (rises) {
    SiftUp(position, last);
  } else {
    SiftDown(position, last);
  }
}

void EvictionQueue::CheckInvariants() const {
  for (std::uint32_t i = 0; i < size_; ++i) {
    SKV_CHECK(tree_->IsNode(items_[i].node) && (*tree_)[items_[i].node].queue_position == i);
    SKV_CHECK(i == 0 || items_[(i - 1) / 2].age <= items_[i].age, "the heap is out of order");
  }
}

}  // namespace swiftkv
