// SPDX-License-Identifier: Apache-2.0
// Names, publishes and forgets blocks.
#include "cache/prefix_index.h"

#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"

namespace swiftkv {

PrefixIndex::PrefixIndex(const CacheGeometry* geometry, MemoryBudget* budget, HeapLedger* ledger)
    : geometry_(geometry),
      budget_(budget),
      ledger_(ledger),
      evicted_(budget->limit_bytes(), ledger) {
  std::size_t full_layers = 0;
  for (std::size_t group = 0; group < groups(); ++group) {
    if (!has_window(group)) full_layers += geometry->groups[group].layers.size();
  }
  full_share_ = static_cast<double>(full_layers) / static_cast<double>(geometry->layers.size());
}

Status PrefixIndex::Open() {
  SKV_RETURN_IF_ERROR(tree_.Open(groups(), budget_, ledger_));
  return queue_.Open(&tree_, budget_);
}

FramePool& PrefixIndex::pool(NodeId id, std::size_t group) const {
  const PrefixNode& node = tree_[id];
  return *node.format->in(node.block >= 1 && node.format->seals(group)).pools[group];
}

NodeId PrefixIndex::FindPublished(const BlockKey& key, std::span<const std::int32_t> tokens,
                                  const Wanted& wanted) const {
  NodeId best = kNoNode;
  for (NodeId id = tree_.First(key); id != kNoNode; id = tree_.NextOfKey(id)) {
    const PrefixNode& node = tree_[id];
    if (!node.published || node.format != wanted.format || !Serves(node.grade, wanted.allowed)) {
      continue;
    }
    if (!std::equal(tokens.begin(), tokens.end(), node.tokens.begin())) continue;
    if (best == kNoNode || node.grade < tree_[best].grade) best = id;
  }
  return best;
}

NodeId PrefixIndex::TryRoot(const BlockKey& key, const StoredFormat* format,
                            std::int64_t first_block) {
  const NodeId known = tree_.FindRoot(key, format);
  if (known != kNoNode) return known;
  if (!queue_.TryGrow(tree_.num_nodes() + 1)) return kNoNode;
  const PrefixTree::Name name = {
      key, {}, format, Quality::kExact, static_cast<std::int32_t>(first_block)};
  const NodeId id = tree_.TryAdd(name, kNoNode);
  if (id == kNoNode) queue_.Shrink(tree_.num_nodes());
  return id;
}

NodeId PrefixIndex::TryChild(NodeId parent, std::span<const std::int32_t> tokens, Quality grade) {
  const StoredFormat* const format = tree_[parent].format;
  const BlockKey key = ChildKey(tree_[parent].key, tokens);
  const NodeId published = FindPublished(key, tokens, {format, grade});
  if (published != kNoNode) return published;
  const PrefixTree::Name name = {key, tokens, format, grade};
  const NodeId known = tree_.Find(name);
  if (known != kNoNode) return known;
  const NodeId collision = tree_.First(key);
  if (collision != kNoNode &&
      !std::equal(tokens.begin(), tokens.end(), tree_[collision].tokens.begin())) {
    return kNoNode;
  }
  if (!queue_.TryGrow(tree_.num_nodes() + 1)) return kNoNode;
  const NodeId id = tree_.TryAdd(name, parent);
  if (id == kNoNode) queue_.Shrink(tree_.num_nodes());
  return id;
}

void PrefixIndex::Leave(NodeId id) {
  SKV_CHECK(tree_[id].standing > 0);
  --tree_[id].standing;
  Prune(id);
}

void PrefixIndex::Prune(NodeId id) {
  while (id != kNoNode) {
    const PrefixNode& node = tree_[id];
    if (node.standing > 0 || node.published || node.first_child != kNoNode) return;
    const NodeId parent = node.parent;
    tree_.Remove(id);
    queue_.Shrink(tree_.num_nodes());
    id = parent;
  }
}

NodeId PrefixIndex::MarkPath(NodeId id, std::int64_t block) {
  while (tree_[id].block > block) {
    const NodeId parent = tree_[id].parent;
    tree_[parent].toward = id;
    id = parent;
  }
  SKV_CHECK(tree_[id].block == block);
  return id;
}

bool PrefixIndex::MayPublish(NodeId id) const {
  const PrefixNode& parent = tree_[tree_[id].parent];
  return parent.published || parent.is_root();
}

bool PrefixIndex::TryKeepFrames(NodeId id, std::span<const std::uint32_t> frames) {
  for (std::size_t group = 0; group < groups(); ++group) {
    std::uint32_t& kept = tree_.frames(id)[group];
    if (kept != Arena::kNoFrame || frames[group] == Arena::kNoFrame) continue;
    const auto tag = static_cast<std::uint32_t>(id * groups() + group + 1);
    if (!pool(id, group).TryKeep(frames[group], tag)) return false;
    kept = frames[group];
  }
  return true;
}

void PrefixIndex::CountUse(NodeId id) {
  PrefixNode& node = tree_[id];
  node.full_in_use = node.window_in_use = 0;
  for (std::size_t group = 0; group < groups(); ++group) {
    const std::uint32_t frame = tree_.frames(id)[group];
    if (frame == Arena::kNoFrame || pool(id, group).references(frame) == 0) continue;
    ++(has_window(group) ? node.window_in_use : node.full_in_use);
  }
}

bool PrefixIndex::TryPublish(NodeId id, std::span<const std::uint32_t> frames) {
  PrefixNode& node = tree_[id];
  const bool has_room = TryKeepFrames(id, frames);
  CountUse(id);
  if (!has_room && !node.published) {
    ForgetFrames(id, false);
    return false;
  }
  if (!node.published) {
    node.published = true;
    ++tree_[node.parent].published_children;
    ++counters_.published_blocks;
    if (node.block == 0) beginnings_.Add(node.tokens);
    SetAge(id, false);
  }
  Refresh(id);
  Refresh(tree_[id].parent);
  return has_room;
}

void PrefixIndex::ForgetFrames(NodeId id, bool window_only) {
  PrefixNode& node = tree_[id];
  for (std::size_t group = 0; group < groups(); ++group) {
    std::uint32_t& frame = tree_.frames(id)[group];
    if (frame == Arena::kNoFrame || (window_only && !has_window(group))) continue;
    FramePool& frames = pool(id, group);
    if (frames.references(frame) > 0) --(has_window(group) ? node.window_in_use : node.full_in_use);
    frames.Forget(frame);
    frame = Arena::kNoFrame;
  }
}

void PrefixIndex::Unpublish(NodeId id) {
  ForgetFrames(id, false);
  PrefixNode& node = tree_[id];
  const NodeId parent = node.parent;
  node.published = false;
  if (node.block == 0) beginnings_.Remove(node.tokens);
  SKV_CHECK(node.published_children == 0, "leaves go first");
  SKV_CHECK(node.pinned_until == 0, "a pinned block stays");
  --tree_[parent].published_children;
  Refresh(id);
  Prune(id);
  if (tree_.IsNode(parent)) Refresh(parent);  // a root may have been pruned with its last child
}

bool PrefixIndex::EvictNext() {
  if (queue_.empty()) return evicted_.Clear();
  const NodeId id = queue_.first();
  queue_.Advance(queue_.age(id));
  if (MayGoWhole(tree_[id])) {
    const BlockKey key = tree_[id].key;
    Unpublish(id);
    evicted_.Add(key);
    ++counters_.evicted_blocks;
  } else {
    ForgetFrames(id, true);
    Refresh(id);
  }
  return true;
}

std::uint64_t PrefixIndex::Clear() {
  EndPins(0);
  std::uint64_t blocks = 0;
  while (tree_.newest_root() != kNoNode) blocks += ClearBelow(tree_.newest_root());
  evicted_.Clear();
  return blocks;
}

std::uint64_t PrefixIndex::Clear(const BlockKey& root) {
  const auto stay = std::partition(pins_.begin(), pins_.end(), [&](const Pin& pin) {
    NodeId at = pin.end;
    while (!tree_[at].is_root()) at = tree_[at].parent;
    return tree_[at].key != root;
  });
  EndPins(static_cast<std::size_t>(stay - pins_.begin()));
  std::uint64_t blocks = 0;
  for (NodeId id = tree_.First(root); id != kNoNode; id = tree_.First(root)) {
    blocks += ClearBelow(id);
  }
  return blocks;
}

// Without pins and sequences, all below a root is findable, and goes leaf by leaf.
std::uint64_t PrefixIndex::ClearBelow(NodeId root) {
  std::uint64_t blocks = 0;
  NodeId at = root;
  for (;;) {
    while (tree_[at].first_child != kNoNode) at = tree_[at].first_child;
    SKV_CHECK(tree_[at].standing == 0, "a sequence still stands on a node");
    if (at == root) break;
    const NodeId parent = tree_[at].parent;
    Unpublish(at);
    ++blocks;
    if (!tree_.IsNode(root)) return blocks;  // gone with its last child
    at = parent;
  }
  Prune(root);
  return blocks;
}

}  // namespace swiftkv
