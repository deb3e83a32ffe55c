// SPDX-License-Identifier: Apache-2.0
// Finds a prompt's blocks in the prefix index and hands them to sequences.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "cache/frame_recoding.h"
#include "cache/sequence_set.h"

namespace swiftkv {

PrefixHit SequenceSet::FindPrefix(const KvFormat& format, const BlockKey& root, Quality allowed,
                                  std::span<const std::int32_t> tokens) const {
  PrefixQuery query;
  query.root = root;
  query.wanted = {formats_.FindKnown(format), allowed};
  query.tokens = tokens;
  return PrefixMatcher(geometry_, &index_).Find(query).hit;
}

Result<PrefixHit> SequenceSet::AdoptPrefix(SequenceId id, std::span<const std::int32_t> tokens) {
  Sequence& sequence = GetMutable(id);
  SequenceNames& names = sequence.names;
  PrefixHit nothing = {sequence.length, PrefixEnd::kNotShared, -1, names.grade};
  if (!names.AreComplete(sequence.length)) return nothing;
  if (!names.has_asked) names.queried_tokens = tokens.size();
  names.has_asked = true;
  nothing.end = PrefixEnd::kWholePrompt;
  if (static_cast<std::int64_t>(tokens.size()) <= sequence.length + 1) return nothing;
  const std::int64_t whole = sequence.length / kPageTokens;
  const auto held_tail = tokens.subspan(static_cast<std::size_t>(whole * kPageTokens),
                                        static_cast<std::size_t>(sequence.length % kPageTokens));
  SKV_CHECK(std::equal(held_tail.begin(), held_tail.end(), names.tail.begin()),
            "the prompt begins with what the sequence holds");
  PrefixQuery query;
  query.root = names.root;
  query.wanted = {sequence.format, names.allowed};
  query.tokens = tokens;
  query.from = names.node;
  for (std::size_t group = 0; group < held_blocks_.size(); ++group) {
    held_blocks_[group] = sequence.format->seals(group)
                              ? std::min(whole, sequence.tables[group].sealed_end())
                              : whole;
  }
  query.held = held_blocks_;
  PrefixMatch match = PrefixMatcher(geometry_, &index_).Find(query);
  if (match.hit.tokens <= sequence.length) {
    match.hit.tokens = sequence.length;
    match.hit.grade = names.grade;
    return match.hit;
  }
  EndReservation(&sequence);
  const std::int64_t before = sequence.length;
  const std::int64_t published = names.published_end;
  HoldTail(match);  // room for the whole blocks may have to be made
  if (match.blocks > whole) {
    if (!TryAdopt(&sequence, match)) {
      LetGoOfTail(match);
      return Status::ResourceExhausted(fmt::format(
          "the KV cache has no room for the page tables of {} blocks found; {} of {} bytes are "
          "left",
          match.blocks, budget_->left_bytes(), budget_->limit_bytes()));
    }
    TakeAllPublished(&sequence, published, whole);
  }
  if (match.tail != kNoNode && match.hit.tokens > sequence.length) {
    CopyTail(&sequence, match, tokens);
  }
  LetGoOfTail(match);
  names.grade = Worse(names.grade, match.hit.grade);
  match.hit.tokens = sequence.length;
  names.hit_tokens += static_cast<std::uint64_t>(sequence.length - before);
  return match.hit;
}

// References to everything found come first: what is about to be used is not evicted to make room
// for it. After false, nothing has changed.
bool SequenceSet::TryAdopt(Sequence* sequence, const PrefixMatch& match) {
  std::int64_t from = match.blocks;
  for (std::size_t group = 0; group < held_blocks_.size(); ++group) {
    from = std::min(from, FirstAdopted(match, group));
  }
  const auto for_each_frame = [&](const auto& visit) {
    NodeId node = match.node;
    for (std::int64_t block = match.blocks - 1; block >= from; --block) {
      for (std::size_t group = 0; group < held_blocks_.size(); ++group) {
        if (block < FirstAdopted(match, group)) continue;
        visit(group, block, &index_.pool(node, group), index_.tree().frames(node)[group]);
      }
      node = index_.tree()[node].parent;
    }
  };
  for_each_frame([](std::size_t, std::int64_t, FramePool* frames, std::uint32_t frame) {
    frames->AddReference(frame);
  });
  bool has_room = true;
  for (std::size_t group = 0; group < held_blocks_.size(); ++group) {
    PageTable& table = sequence->tables[group];
    pending_[group].capacity = table.capacity();
    const auto count = static_cast<std::size_t>(match.blocks - FirstAdopted(match, group));
    has_room = has_room && WithEviction([&] { return table.TryMakeRoom(count, &ledger_); });
  }
  if (!has_room) {
    for (std::size_t group = 0; group < held_blocks_.size(); ++group) {
      sequence->tables[group].ShrinkRoom(pending_[group].capacity, &ledger_);
    }
    for_each_frame([](std::size_t, std::int64_t, FramePool* frames, std::uint32_t frame) {
      frames->Release({&frame, 1});
    });
    return false;
  }
  for (std::size_t group = 0; group < held_blocks_.size(); ++group) {
    MakePlaceForAdopted(sequence, match, group);
  }
  for_each_frame([&](std::size_t group, std::int64_t block, FramePool*, std::uint32_t frame) {
    sequence->tables[group].Replace(block, frame);
  });
  StandOn(sequence, match.node);
  sequence->names.end = sequence->length = sequence->reserved_end = match.blocks * kPageTokens;
  sequence->names.published_end = match.blocks;
  SlideWindows(sequence);
  return true;
}

std::int64_t SequenceSet::FirstAdopted(const PrefixMatch& match, std::size_t group) const {
  return std::max(held_blocks_[group],
                  OldestVisibleBlock(match.blocks * kPageTokens, geometry_->window(group)));
}

// Ends a group's table at match.blocks, the adopted ones still without frames.
void SequenceSet::MakePlaceForAdopted(Sequence* sequence, const PrefixMatch& match,
                                      std::size_t group) {
  PageTable& table = sequence->tables[group];
  const std::int64_t held = held_blocks_[group];
  ReleaseBlocks(*sequence, group, held, table.end_block());
  table.DropFrom(held);
  const std::int64_t first = FirstAdopted(match, group);
  if (first > held) {  // its window has nothing to do with what it held
    ReleaseBlocks(*sequence, group, table.first_block(), held);
    table.DropFrom(table.first_block());
    table.StartAt(first);
  }
  for (std::int64_t block = first; block < match.blocks; ++block) table.Append(Arena::kNoFrame);
  if (sequence->format->seals(group)) table.MarkSealed(match.blocks);
}

void SequenceSet::HoldTail(const PrefixMatch& match) {
  for (std::size_t group = 0; match.tail != kNoNode && group < held_blocks_.size(); ++group) {
    index_.pool(match.tail, group).AddReference(index_.tree().frames(match.tail)[group]);
  }
}

void SequenceSet::LetGoOfTail(const PrefixMatch& match) {
  for (std::size_t group = 0; match.tail != kNoNode && group < held_blocks_.size(); ++group) {
    const std::uint32_t frame = index_.tree().frames(match.tail)[group];
    index_.pool(match.tail, group).Release({&frame, 1});
  }
}

// Best effort: without room the sequence ends with its last whole block, or as it was.
void SequenceSet::CopyTail(Sequence* sequence, const PrefixMatch& match,
                           std::span<const std::int32_t> tokens) {
  const std::uint32_t* const sources = index_.tree().frames(match.tail);
  const std::size_t groups = sequence->tables.size();
  for (std::size_t group = 0; group < groups; ++group) {
    index_.pool(match.tail, group).AddReference(sources[group]);
    pending_[group].copy = Arena::kNoFrame;
  }
  bool has_room = true;
  for (std::size_t group = 0; group < groups && has_room; ++group) {
    PageTable& table = sequence->tables[group];
    pending_[group].copy = AllocateFrame(sequence->format->open.pools[group]);
    has_room = pending_[group].copy != Arena::kNoFrame &&
               WithEviction([&] { return table.TryMakeRoom(1, &ledger_); });
  }
  for (std::size_t group = 0; group < groups; ++group) {
    FramePool& open = *sequence->format->open.pools[group];
    FramePool& from = index_.pool(match.tail, group);
    const std::uint32_t copy = pending_[group].copy;
    if (has_room) {
      const StoredLayout& layout = sequence->format->in(&from != &open);
      RecodeFrame(*geometry_, group, {&layout.layout, from.arena().Frame(sources[group])},
                  {&sequence->format->open.layout, open.arena().Frame(copy)}, match.tail_tokens);
      PageTable& table = sequence->tables[group];
      ReleaseBlocks(*sequence, group, match.blocks, table.end_block());
      table.DropFrom(match.blocks);
      table.Append(copy);
    } else if (copy != Arena::kNoFrame) {
      open.Release({&copy, 1});
    }
    from.Release({&sources[group], 1});
  }
  if (!has_room) return;
  StandOn(sequence, match.node);
  SequenceNames& names = sequence->names;
  const std::int64_t end = match.blocks * kPageTokens + match.tail_tokens;
  index_.counters().copied_tail_tokens += static_cast<std::uint64_t>(end - sequence->length);
  const auto tail = tokens.subspan(static_cast<std::size_t>(match.blocks * kPageTokens),
                                   static_cast<std::size_t>(match.tail_tokens));
  std::copy(tail.begin(), tail.end(), names.tail.begin());
  names.end = sequence->length = sequence->reserved_end = end;
  SlideWindows(sequence);
}

}  // namespace swiftkv
