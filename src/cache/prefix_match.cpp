// SPDX-License-Identifier: Apache-2.0
// Walks block keys down the index, then back to where sliding windows have what they see.
#include "cache/prefix_match.h"

#include <algorithm>

namespace swiftkv {
namespace {

constexpr int kMostChildren = 256;  // looked at for a partial block
constexpr int kMostScopes = 64;     // looked at to tell a salt from a prompt that nobody sent

}  // namespace

PrefixMatch PrefixMatcher::Find(const PrefixQuery& query) const {
  const PrefixTree& tree = index_->tree();
  PrefixMatch match;
  match.node = query.from != kNoNode ? query.from : tree.FindRoot(query.root, query.wanted.format);
  match.blocks = query.from == kNoNode ? 0 : tree[query.from].block + std::int64_t{1};
  const std::int64_t most = query.most_tokens();
  if (most <= match.blocks * kPageTokens) {
    match.hit.tokens = match.blocks * kPageTokens;
    match.hit.end = PrefixEnd::kWholePrompt;
    return match;
  }
  BlockKey key = match.node == kNoNode ? query.root : tree[match.node].key;
  while ((match.blocks + 1) * kPageTokens <= most) {
    const auto tokens =
        query.tokens.subspan(static_cast<std::size_t>(match.blocks * kPageTokens), kPageTokens);
    key = ChildKey(key, tokens);
    const NodeId next = index_->FindPublished(key, tokens, query.wanted);
    if (next == kNoNode) break;
    match.node = next;
    ++match.blocks;
  }
  const bool was_cut = CutToWindows(query, &match);
  Continuation usable;
  if (!was_cut && match.node != kNoNode) usable = Closest(query, match, true);
  match.tail = usable.node;
  match.tail_tokens = usable.agreeing;
  match.hit.tokens = match.blocks * kPageTokens + match.tail_tokens;
  if (match.node != kNoNode) match.hit.grade = tree[match.node].grade;
  if (match.tail != kNoNode) match.hit.grade = tree[match.tail].grade;
  if (was_cut) {
    match.hit.end = PrefixEnd::kEvicted;
  } else if (match.hit.tokens >= most) {
    match.hit.end = PrefixEnd::kWholePrompt;
  } else {
    Continuation closest;
    if (match.node != kNoNode) closest = Closest(query, match, false);
    match.hit.end = WhyNoFurther(query, match, closest);
    if (match.hit.end == PrefixEnd::kTokenDiffers) {
      match.hit.differs_at = match.blocks * kPageTokens + closest.agreeing;
    }
  }
  return match;
}

bool PrefixMatcher::CutToWindows(const PrefixQuery& query, PrefixMatch* match) const {
  const PrefixTree& tree = index_->tree();
  const std::int64_t first = query.from == kNoNode ? 0 : tree[query.from].block + std::int64_t{1};
  const std::int64_t found = match->blocks;
  const auto held = [&](std::size_t group) { return query.held.empty() ? 0 : query.held[group]; };
  // The oldest block that a reader of `blocks` whole ones needs of a group.
  const auto needed = [&](std::size_t group) {
    const std::int64_t oldest =
        OldestVisibleBlock(match->blocks * kPageTokens, geometry_->window(group));
    return std::max(oldest, held(group));
  };
  NodeId at = match->node;
  for (std::int64_t block = found - 1; block >= 0 && match->blocks > first; --block) {
    bool is_needed = false;
    bool is_there = true;
    for (std::size_t group = 0; group < geometry_->groups.size(); ++group) {
      if (block < needed(group)) continue;
      is_needed = true;
      is_there = is_there && tree.frames(at)[group] != Arena::kNoFrame;
    }
    if (!is_needed) break;
    at = tree[at].parent;
    if (is_there) continue;
    match->blocks = block;
    match->node = at;
  }
  if (match->blocks < first) {  // what it has cannot be continued with what is known
    match->blocks = first;
    match->node = query.from;
  }
  return match->blocks < found;
}

bool PrefixMatcher::HasWindowFrames(NodeId id) const {
  const std::uint32_t* const frames = index_->tree().frames(id);
  return std::find(frames, frames + geometry_->groups.size(), Arena::kNoFrame) ==
         frames + geometry_->groups.size();
}

PrefixMatcher::Continuation PrefixMatcher::Closest(const PrefixQuery& query,
                                                   const PrefixMatch& match, bool usable) const {
  const PrefixTree& tree = index_->tree();
  const auto rest = query.tokens.subspan(static_cast<std::size_t>(match.blocks * kPageTokens));
  const std::int64_t left = usable ? query.most_tokens() - match.blocks * kPageTokens
                                   : static_cast<std::int64_t>(rest.size());
  const std::int64_t most = std::min<std::int64_t>(left, kPageTokens);
  Continuation best;
  int looked_at = 0;
  for (NodeId id = tree[match.node].first_child; id != kNoNode && looked_at < kMostChildren;
       id = tree[id].next_sibling) {
    const PrefixNode& node = tree[id];
    ++looked_at;
    if (!node.published) continue;
    if (usable && (!Serves(node.grade, query.wanted.allowed) || !HasWindowFrames(id))) continue;
    const auto differing =
        std::mismatch(node.tokens.begin(), node.tokens.begin() + most, rest.begin());
    const auto agreeing = static_cast<int>(differing.first - node.tokens.begin());
    if (agreeing > best.agreeing || (!usable && best.node == kNoNode)) best = {id, agreeing};
  }
  return best;
}

PrefixEnd PrefixMatcher::WhyNoFurther(const PrefixQuery& query, const PrefixMatch& match,
                                      Continuation closest) const {
  const PrefixTree& tree = index_->tree();
  const auto rest = query.tokens.subspan(static_cast<std::size_t>(match.blocks * kPageTokens));
  if (rest.size() > kPageTokens) {
    const BlockKey key = ChildKey(match.node == kNoNode ? query.root : tree[match.node].key,
                                  rest.first(kPageTokens));
    for (NodeId id = tree.First(key); id != kNoNode; id = tree.NextOfKey(id)) {
      if (tree[id].published) return PrefixEnd::kQuality;
    }
    if (index_->evicted_keys().Contains(key)) return PrefixEnd::kEvicted;
  }
  if (closest.node != kNoNode) {
    const auto most = static_cast<int>(std::min<std::size_t>(rest.size(), kPageTokens));
    if (closest.agreeing < most) return PrefixEnd::kTokenDiffers;
    // All of it agrees, and yet it could not be taken.
    return Serves(tree[closest.node].grade, query.wanted.allowed) ? PrefixEnd::kEvicted
                                                                  : PrefixEnd::kQuality;
  }
  if (match.blocks == 0 && IsKnownUnderOtherSalts(query)) return PrefixEnd::kSalt;
  return PrefixEnd::kNeverSeen;
}

bool PrefixMatcher::IsKnownUnderOtherSalts(const PrefixQuery& query) const {
  if (query.tokens.size() < kPageTokens) return false;
  const auto beginning = query.tokens.first(kPageTokens);
  if (!index_->MayKnowBeginning(beginning)) return false;
  const PrefixTree& tree = index_->tree();
  int looked_at = 0;
  for (NodeId root = tree.newest_root(); root != kNoNode && looked_at < kMostScopes;
       root = tree[root].next_sibling) {
    if (tree[root].key == query.root || tree[root].block >= 0) continue;
    ++looked_at;
    const NodeId first = tree.First(ChildKey(tree[root].key, beginning));
    if (first != kNoNode && tree[first].published) return true;
  }
  return false;
}

}  // namespace swiftkv
