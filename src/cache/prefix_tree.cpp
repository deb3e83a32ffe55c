// SPDX-License-Identifier: Apache-2.0
// Links nodes into the tree and the hash table.
#include "cache/prefix_tree.h"

#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"

namespace swiftkv {
namespace {

constexpr std::uint64_t kBytesOfBoundPerNode = 1024;  // far more than a node takes
constexpr std::uint64_t kFewestNodes = 1024;
constexpr std::uint64_t kMostNodes = std::uint64_t{1} << 28;
constexpr std::size_t kFewestBuckets = 64;

}  // namespace

Status PrefixTree::Open(std::size_t groups, MemoryBudget* budget, HeapLedger* ledger) {
  groups_ = groups;
  ledger_ = ledger;
  const std::uint64_t most = std::min<std::uint64_t>(kMostNodes, (UINT32_MAX - 1) / groups);
  capacity_ = static_cast<std::uint32_t>(
      std::clamp(budget->limit_bytes() / kBytesOfBoundPerNode, std::min(kFewestNodes, most), most));
  SKV_ASSIGN_OR_RETURN(used_, FrameBitmap::Create(capacity_, budget));
  SKV_ASSIGN_OR_RETURN(nodes_,
                       ChargedArray<PrefixNode>::Create(capacity_, "swiftkv prefix nodes", budget));
  SKV_ASSIGN_OR_RETURN(frames_, ChargedArray<std::uint32_t>::Create(
                                    capacity_ * groups, "swiftkv prefix frames", budget));
  if (ledger->TryAdd(used_.heap_bytes())) return Status::Ok();
  return Status::ResourceExhausted("the KV cache's bound has no room for the prefix index");
}

NodeId PrefixTree::TryAdd(const Name& name, NodeId parent) {
  const NodeId id = used_.LowestFree();
  if (id == FrameBitmap::kNone) return kNoNode;
  if (num_nodes_ >= buckets_.size() &&
      !TryResizeBuckets(std::max(kFewestBuckets, 2 * buckets_.size())) && buckets_.empty()) {
    return kNoNode;
  }
  if (!TryGrowFor(id)) {
    ShrinkToFit();
    return kNoNode;
  }
  used_.Use(id);
  end_ = std::max(end_, id + 1);
  ++num_nodes_;
  PrefixNode& node = nodes_[id];
  node = PrefixNode{};
  node.key = name.key;
  std::copy(name.tokens.begin(), name.tokens.end(), node.tokens.begin());
  node.format = name.format;
  node.grade = name.grade;
  node.block = parent == kNoNode ? name.first_block - 1 : nodes_[parent].block + 1;
  node.queue_position = UINT32_MAX;
  std::fill_n(frames(id), groups_, Arena::kNoFrame);
  Link(id, parent);
  return id;
}

bool PrefixTree::TryGrowFor(NodeId id) {
  return id < end_ || (used_.TryGrow(id + 1) && nodes_.TryGrow(id + std::size_t{1}) &&
                       frames_.TryGrow((id + std::size_t{1}) * groups_));
}

void PrefixTree::ShrinkToFit() {
  used_.Shrink(end_);
  nodes_.Shrink(end_);
  frames_.Shrink(end_ * groups_);
  if (num_nodes_ == 0) {
    TryResizeBuckets(0);
  } else if (buckets_.size() > kFewestBuckets && std::size_t{num_nodes_} * 4 < buckets_.size()) {
    TryResizeBuckets(buckets_.size() / 2);
  }
}

void PrefixTree::Remove(NodeId id) {
  SKV_CHECK(nodes_[id].first_child == kNoNode, "a node with children stays");
  Unlink(id);
  used_.Free(id);
  --num_nodes_;
  nodes_[id] = PrefixNode{};
  std::fill_n(frames(id), groups_, 0);
  if (id + 1 == end_) end_ = used_.EndOfUsed(end_);
  ShrinkToFit();
}

void PrefixTree::Link(NodeId id, NodeId parent) {
  PrefixNode& node = nodes_[id];
  NodeId& head = HeadOf(node.key);
  node.next_in_bucket = head;
  head = id;
  node.first_child = node.toward = kNoNode;
  node.parent = parent;
  NodeId& first = parent == kNoNode ? first_root_ : nodes_[parent].first_child;
  node.previous_sibling = kNoNode;
  node.next_sibling = first;
  if (first != kNoNode) nodes_[first].previous_sibling = id;
  first = id;
}

void PrefixTree::Unlink(NodeId id) {
  PrefixNode& node = nodes_[id];
  NodeId* link = &HeadOf(node.key);
  while (*link != id) link = &nodes_[*link].next_in_bucket;
  *link = node.next_in_bucket;
  NodeId& first = node.parent == kNoNode ? first_root_ : nodes_[node.parent].first_child;
  if (first == id) {
    first = node.next_sibling;
  } else {
    nodes_[node.previous_sibling].next_sibling = node.next_sibling;
  }
  if (node.next_sibling != kNoNode) {
    nodes_[node.next_sibling].previous_sibling = node.previous_sibling;
  }
}

NodeId& PrefixTree::HeadOf(const BlockKey& key) {
  return buckets_[BlockKeyHash()(key) & (buckets_.size() - 1)];
}

bool PrefixTree::TryResizeBuckets(std::size_t count) {
  const std::uint64_t before = buckets_.capacity() * sizeof(NodeId);
  const std::uint64_t after = count * sizeof(NodeId);
  if (after > before && !ledger_->TryAdd(after - before)) return false;
  std::vector<NodeId> old;
  old.swap(buckets_);
  if (count > 0) buckets_.reserve(count);
  SKV_CHECK(buckets_.capacity() == count, "reserve() gives what was asked for");
  buckets_.assign(count, kNoNode);
  for (NodeId first : old) {
    while (first != kNoNode) {
      const NodeId next = nodes_[first].next_in_bucket;
      NodeId& head = HeadOf(nodes_[first].key);
      nodes_[first].next_in_bucket = head;
      head = first;
      first = next;
    }
  }
  if (after < before) ledger_->Remove(before - after);
  return true;
}

NodeId PrefixTree::Match(NodeId id, const BlockKey& key) const {
  while (id != kNoNode && nodes_[id].key != key) id = nodes_[id].next_in_bucket;
  return id;
}

NodeId PrefixTree::First(const BlockKey& key) const {
  if (buckets_.empty()) return kNoNode;
  return Match(buckets_[BlockKeyHash()(key) & (buckets_.size() - 1)], key);
}

NodeId PrefixTree::NextOfKey(NodeId id) const {
  return Match(nodes_[id].next_in_bucket, nodes_[id].key);
}

NodeId PrefixTree::FindRoot(const BlockKey& key, const StoredFormat* format) const {
  return Find({key, {}, format, Quality::kExact});
}

NodeId PrefixTree::Find(const Name& name) const {
  for (NodeId id = First(name.key); id != kNoNode; id = NextOfKey(id)) {
    const PrefixNode& node = nodes_[id];
    if (node.format != name.format || node.grade != name.grade) continue;
    if (std::equal(name.tokens.begin(), name.tokens.end(), node.tokens.begin())) return id;
  }
  return kNoNode;
}

std::uint64_t PrefixTree::metadata_bytes() const {
  return used_.charged_bytes() + nodes_.charged_bytes() + frames_.charged_bytes();
}

std::uint64_t PrefixTree::heap_bytes() const {
  return used_.heap_bytes() + buckets_.capacity() * sizeof(NodeId);
}

void PrefixTree::CheckInvariants() const {
  used_.CheckInvariants();
  SKV_CHECK(nodes_.size() == end_ && frames_.size() == end_ * groups_);
  std::uint32_t nodes = 0;
  std::uint32_t links = first_root_ == kNoNode ? 0 : 1;
  for (NodeId id = 0; id < end_; ++id) {
    if (!used_.IsUsed(id)) continue;
    ++nodes;
    const PrefixNode& node = nodes_[id];
    SKV_CHECK(Find({node.key,
                    {node.tokens.data(), node.is_root() ? 0U : node.tokens.size()},
                    node.format,
                    node.grade}) == id,
              "a node cannot be found by its name");
    for (const NodeId link : {node.first_child, node.next_sibling}) {
      if (link != kNoNode) ++links;
    }
    if (node.next_sibling != kNoNode) {
      SKV_CHECK(nodes_[node.next_sibling].previous_sibling == id);
      SKV_CHECK(nodes_[node.next_sibling].parent == node.parent);
    }
    if (node.first_child != kNoNode) SKV_CHECK(nodes_[node.first_child].parent == id);
    SKV_CHECK(node.is_root() == (node.parent == kNoNode));
    if (node.is_root()) continue;
    const PrefixNode& parent = nodes_[node.parent];
    SKV_CHECK(node.block == parent.block + 1 && node.format == parent.format &&
                  parent.grade <= node.grade && ChildKey(parent.key, node.tokens) == node.key,
              "a node does not continue its parent");
  }
  SKV_CHECK(nodes == num_nodes_ && links == nodes, "a node is in no list of children, or in two");
}

}  // namespace swiftkv
