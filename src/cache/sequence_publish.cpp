// SPDX-License-Identifier: Apache-2.0
// Names the blocks of a sequence by their tokens and makes them findable once they are computed.
#include <algorithm>

#include "base/check.h"
#include "cache/sequence_set.h"

namespace swiftkv {

void SequenceSet::StandOn(Sequence* sequence, NodeId node) {
  const NodeId before = sequence->names.node;
  if (node == before) return;
  if (node != kNoNode) index_.Stand(node);
  sequence->names.node = node;
  if (before != kNoNode) index_.Leave(before);
}

void SequenceSet::Unname(Sequence* sequence) {
  StandOn(sequence, kNoNode);
  sequence->names.end = sequence->names.published_end = 0;
}

// `tokens` are the newest. Where the bound has no room for a name, the rest stays unnamed.
void SequenceSet::Name(Sequence* sequence, std::span<const std::int32_t> tokens) {
  SequenceNames& names = sequence->names;
  if (!names.AreComplete(sequence->length - static_cast<std::int64_t>(tokens.size()))) return;
  NodeId next = kNoNode;
  if (names.node == kNoNode) {
    WithEviction([&] { return (next = index_.TryRoot(names.root, sequence->format)) != kNoNode; });
    if (next == kNoNode) return;
    StandOn(sequence, next);
  }
  for (const std::int32_t token : tokens) {
    names.tail[static_cast<std::size_t>(names.end % kPageTokens)] = token;
    if (++names.end % kPageTokens != 0) continue;
    WithEviction(
        [&] { return (next = index_.TryChild(names.node, names.tail, names.grade)) != kNoNode; });
    if (next == kNoNode) {
      names.end -= kPageTokens;
      return;
    }
    StandOn(sequence, next);
  }
}

void SequenceSet::ShortenNames(Sequence* sequence) {
  SequenceNames& names = sequence->names;
  if (sequence->length >= names.end) return;
  names.end = sequence->length;
  const std::int64_t blocks = names.end / kPageTokens;
  names.published_end = std::min(names.published_end, blocks);
  const PrefixNode& last = index_.tree()[names.node];
  if (last.block + 1 == blocks) return;  // the tail has become shorter
  const NodeId cut = index_.MarkPath(names.node, blocks);
  names.tail = index_.tree()[cut].tokens;
  StandOn(sequence, index_.tree()[cut].parent);
}

void SequenceSet::WorsenGrade(SequenceId id, Quality grade) {
  SequenceNames& names = GetMutable(id).names;
  names.grade = Worse(names.grade, grade);
}

void SequenceSet::Publish(Sequence* sequence) {
  SequenceNames& names = sequence->names;
  if (names.node == kNoNode) return;
  std::int64_t end = index_.tree()[names.node].block + std::int64_t{1};
  for (std::size_t group = 0; group < sequence->tables.size(); ++group) {
    if (!sequence->format->seals(group)) continue;
    end = std::min(end, sequence->tables[group].sealed_end());
  }
  if (names.published_end >= end) return;
  NodeId node = index_.MarkPath(names.node, names.published_end);
  for (std::int64_t block = names.published_end; block < end; ++block) {
    if (!PublishBlock(sequence, block, node)) return;
    names.published_end = block + 1;
    node = index_.tree()[node].toward;
  }
}

// False where there is no room, so that a later commit tries again, or where the block before is
// findable no more: then the sequence has no names any more.
bool SequenceSet::PublishBlock(Sequence* sequence, std::int64_t block, NodeId node) {
  if (index_.tree()[node].published) TakePublished(sequence, block, node);
  for (std::size_t group = 0; group < sequence->tables.size(); ++group) {
    const PageTable& table = sequence->tables[group];
    block_frames_[group] =
        block >= table.first_block() ? table.frame(block) : std::uint32_t{Arena::kNoFrame};
    if (block_frames_[group] == Arena::kNoFrame) continue;
    const std::uint32_t tag = sequence->pool(group, block).keeper_tag(block_frames_[group]);
    const bool is_kept_elsewhere =
        tag != 0 && index_.tree().frames(node)[group] != block_frames_[group];
    if (!is_kept_elsewhere) continue;
    SKV_CHECK(geometry_->window(group) != 0, "a block has two names");
    block_frames_[group] = Arena::kNoFrame;
  }
  bool is_orphan = false;  // what is evicted may be the block before, if no window sees it
  const bool has_room = WithEviction([&] {
    is_orphan = !index_.MayPublish(node);
    return is_orphan || index_.TryPublish(node, block_frames_);
  });
  if (is_orphan) Unname(sequence);
  return has_room && !is_orphan;
}

// What follows blocks is found by way of them: all are findable then, if only as somebody else's.
void SequenceSet::TakeAllPublished(Sequence* sequence, std::int64_t first, std::int64_t end) {
  if (first >= end) return;
  NodeId node = index_.MarkPath(sequence->names.node, first);
  for (std::int64_t block = first; block < end; ++block) {
    TakePublished(sequence, block, node);
    node = index_.tree()[node].toward;
  }
}

// Two sequences that computed the same block keep one copy of it, the one that was there first.
void SequenceSet::TakePublished(Sequence* sequence, std::int64_t block, NodeId node) {
  for (std::size_t group = 0; group < sequence->tables.size(); ++group) {
    PageTable& table = sequence->tables[group];
    const std::uint32_t published = index_.tree().frames(node)[group];
    if (published == Arena::kNoFrame || block < table.first_block()) continue;
    const std::uint32_t own = table.frame(block);
    if (own == published) continue;
    FramePool& frames = sequence->pool(group, block);
    frames.AddReference(published);
    table.Replace(block, published);
    frames.Release({&own, 1});
  }
}

}  // namespace swiftkv
