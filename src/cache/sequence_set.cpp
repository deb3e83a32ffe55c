// SPDX-License-Identifier: Apache-2.0
// Creates, forks, shortens and ends sequences.
#include "cache/sequence_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"
#include "cache/compaction.h"

namespace swiftkv {
namespace {

FramePool::Options WithKeeper(FramePool::Options options, FrameKeeper* keeper) {
  options.keeper = keeper;
  return options;
}

// A SequenceId is the slot's index and, above it, the generation: a stale id is noticed.
constexpr std::uint32_t kIndexBits = 20;
constexpr std::uint32_t kMostSequences = (1U << kIndexBits) - 1;

constexpr std::uint32_t IndexOf(SequenceId id) {
  return static_cast<std::uint32_t>(id) & kMostSequences;
}

constexpr std::uint32_t GenerationOf(SequenceId id) {
  return static_cast<std::uint32_t>(id) >> kIndexBits;
}

}  // namespace

Sequence::Sequence() = default;
Sequence::Sequence(Sequence&& other) noexcept = default;
Sequence& Sequence::operator=(Sequence&& other) noexcept = default;
Sequence::~Sequence() = default;

SequenceSet::SequenceSet(const CacheGeometry* geometry, MemoryBudget* budget,
                         const FramePool::Options& pool_options)
    : geometry_(geometry),
      budget_(budget),
      ledger_(budget),
      index_(geometry, budget, &ledger_),
      segments_(geometry, &index_, &ledger_),
      formats_(geometry, budget, &ledger_, WithKeeper(pool_options, &index_)),
      pending_(geometry->groups.size()),
      block_frames_(geometry->groups.size()),
      held_blocks_(geometry->groups.size()) {}

Result<const StoredFormat*> SequenceSet::Know(const KvFormat& format) {
  for (;;) {
    Result<const StoredFormat*> known = formats_.Find(format);
    const bool lacks_room = known.status().code() == StatusCode::kResourceExhausted;
    if (known.ok() || !lacks_room || !EvictNext()) return known;
  }
}

const Sequence& SequenceSet::Get(SequenceId id) const {
  const std::uint32_t index = IndexOf(id);
  SKV_CHECK(
      index < slots_.size() && slots_[index].live && slots_[index].generation == GenerationOf(id),
      "the id names no live sequence");
  return slots_[index];
}

std::size_t SequenceSet::SlotBytes() const {
  std::size_t bytes = geometry_->groups.size() * sizeof(PageTable);
  if (first_free_ == kNoSlot && slots_.size() == slots_.capacity()) {
    bytes += std::max<std::size_t>(slots_.size(), 1) * sizeof(Sequence);  // doubles
  }
  return bytes;
}

SequenceId SequenceSet::TakeSlot(const StoredFormat* format) {
  SKV_CHECK(ledger_.TryAdd(SlotBytes()), "the caller checked that there is room");
  if (first_free_ == kNoSlot) {
    if (slots_.size() == slots_.capacity()) {
      slots_.reserve(std::max<std::size_t>(2 * slots_.size(), 1));
    }
    first_free_ = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back().next_free = kNoSlot;
  }
  const std::uint32_t index = first_free_;
  Sequence& sequence = slots_[index];
  first_free_ = sequence.next_free;
  sequence = Sequence{};
  sequence.format = format;
  sequence.tables.resize(geometry_->groups.size());
  sequence.generation = next_generation_++ & (UINT32_MAX >> kIndexBits);
  sequence.live = true;
  ++live_sequences_;
  return SequenceId{index | (sequence.generation << kIndexBits)};
}

Result<SequenceId> SequenceSet::CreateSequence(const StoredFormat* format) {
  const bool has_room = live_sequences_ < kMostSequences &&
                        WithEviction([&] { return ledger_.HasRoom(SlotBytes()); });
  if (!has_room) {
    return Status::ResourceExhausted(
        fmt::format("the KV cache has no room for one more sequence; {} of {} bytes are left",
                    budget_->left_bytes(), budget_->limit_bytes()));
  }
  return TakeSlot(format);
}

Result<SequenceId> SequenceSet::CreateSequence(const StoredFormat* format, const BlockKey& root,
                                               const PrefixScope& scope) {
  SKV_ASSIGN_OR_RETURN(const SequenceId id, CreateSequence(format));
  SequenceNames& names = GetMutable(id).names;
  names.share = scope.share;
  names.counts = scope.counts;
  names.allowed = scope.allowed;
  names.grade = format->quality();
  names.scope = names.root = root;
  return id;
}

Result<SequenceId> SequenceSet::Fork(SequenceId parent_id) {
  const std::int64_t length = Get(parent_id).length;
  std::size_t heap = SlotBytes();
  for (const PageTable& table : Get(parent_id).tables) {
    heap += PageTable::RoomBytes(static_cast<std::size_t>(BlocksFor(length) - table.first_block()));
  }
  const bool has_room =
      live_sequences_ < kMostSequences && WithEviction([&] { return ledger_.HasRoom(heap); });
  if (!has_room) {
    return Status::ResourceExhausted(
        fmt::format("the KV cache has no room to fork a sequence of {} tokens; {} of {} bytes are "
                    "left",
                    length, budget_->left_bytes(), budget_->limit_bytes()));
  }
  const SequenceId child_id = TakeSlot(Get(parent_id).format);  // may move the parent
  Sequence& parent = GetMutable(parent_id);
  Sequence& child = GetMutable(child_id);
  EndReservation(&parent);
  child.length = child.reserved_end = length;
  child.names = parent.names;
  child.names.queried_tokens = child.names.hit_tokens = 0;  // the parent counts them
  if (child.names.node != kNoNode) index_.Stand(child.names.node);
  child.segment = parent.segment;
  if (child.segment != nullptr) segments_.AddOwner(child.segment);
  for (std::size_t group = 0; group < child.tables.size(); ++group) {
    const PageTable& from = parent.tables[group];
    PageTable& to = child.tables[group];
    to.StartAt(from.first_block(), from.sealed_end());
    SKV_CHECK(to.TryMakeRoom(from.frames().size(), &ledger_));
    for (const BlockStretch& stretch : from.Stretches(from.first_block(), from.end_block())) {
      FramePool& frames = *child.format->in(stretch.is_sealed).pools[group];
      for (const std::uint32_t frame : stretch.frames) {
        frames.AddReference(frame);
        to.Append(frame);
      }
    }
  }
  return child_id;
}

void SequenceSet::Release(SequenceId id) {
  Sequence& sequence = GetMutable(id);
  GiveUpCompaction(&sequence);
  std::uint64_t heap = sequence.tables.size() * sizeof(PageTable);
  for (std::size_t group = 0; group < sequence.tables.size(); ++group) {
    const PageTable& table = sequence.tables[group];
    ReleaseBlocks(sequence, group, table.first_block(), table.end_block());
    heap += table.heap_bytes();
  }
  Unname(&sequence);
  if (sequence.segment != nullptr) segments_.RemoveOwner(sequence.segment);
  sequence = Sequence{};
  sequence.next_free = first_free_;
  first_free_ = IndexOf(id);
  if (--live_sequences_ == 0) {
    heap += slots_.capacity() * sizeof(Sequence);
    std::vector<Sequence>().swap(slots_);  // the capacity goes too
    first_free_ = kNoSlot;
  }
  ledger_.Remove(heap);
}

void SequenceSet::ReleaseBlocks(const Sequence& sequence, std::size_t group, std::int64_t first,
                                std::int64_t end) {
  for (const BlockStretch& stretch : sequence.tables[group].Stretches(first, end)) {
    sequence.format->in(stretch.is_sealed).pools[group]->Release(stretch.frames);
  }
}

void SequenceSet::EndReservation(Sequence* sequence) {
  const std::int64_t end_block = BlocksFor(sequence->length);
  for (std::size_t group = 0; group < sequence->tables.size(); ++group) {
    PageTable& table = sequence->tables[group];
    ReleaseBlocks(*sequence, group, end_block, table.end_block());
    table.DropFrom(end_block);
  }
  sequence->reserved_end = sequence->length;
}

void SequenceSet::Commit(SequenceId id, int num_tokens) {
  Sequence& sequence = GetMutable(id);
  Advance(&sequence, num_tokens);
  SlideWindows(&sequence);
  SealOldBlocks(&sequence);
}

// Blocks are sealed before they may leave a window: an open one cannot become findable.
void SequenceSet::Commit(SequenceId id, std::span<const std::int32_t> tokens) {
  Sequence& sequence = GetMutable(id);
  Advance(&sequence, static_cast<std::int64_t>(tokens.size()));
  Name(&sequence, tokens);
  SealOldBlocks(&sequence);
  Publish(&sequence);
  SlideWindows(&sequence);
}

void SequenceSet::Advance(Sequence* sequence, std::int64_t num_tokens) {
  SKV_CHECK(num_tokens >= 0 && sequence->length + num_tokens <= sequence->reserved_end,
            "only reserved tokens can be committed");
  sequence->length += num_tokens;
  CountPrefix(&sequence->names);
}

// A sequence that is given up before it has computed anything was no look-up that anybody saw.
void SequenceSet::CountPrefix(SequenceNames* names) {
  if (names->counts) {
    index_.counters().queried_tokens += names->queried_tokens;
    index_.counters().hit_tokens += names->hit_tokens;
  }
  names->queried_tokens = names->hit_tokens = 0;
}

void SequenceSet::SlideWindows(Sequence* sequence) {
  index_.BeginSliding();
  for (std::size_t group = 0; group < sequence->tables.size(); ++group) {
    PageTable& table = sequence->tables[group];
    const std::int64_t oldest = OldestVisibleBlock(sequence->length, geometry_->window(group));
    if (oldest <= table.first_block()) continue;
    ReleaseBlocks(*sequence, group, table.first_block(), oldest);
    table.DropBefore(oldest);
  }
  index_.EndSliding();
}

Status SequenceSet::Truncate(SequenceId id, std::int64_t length) {
  Sequence& sequence = GetMutable(id);
  if (length < 0 || length > sequence.length) {
    return Status::InvalidArgument(
        fmt::format("a sequence of {} tokens can be cut to 0 to {}, not: {}", sequence.length,
                    sequence.length, length));
  }
  if (length > 0 && sequence.segment != nullptr && length < sequence.segment->end) {
    return Status::Unsupported(
        fmt::format("a sequence that stands on a segment of {} tokens can be cut to that many or "
                    "more, or to 0, not: {}",
                    sequence.segment->end, length));
  }
  for (std::size_t group = 0; group < sequence.tables.size() && length > 0; ++group) {
    if (geometry_->window(group) == 0) continue;
    const std::int64_t needed = OldestVisibleBlock(length, geometry_->window(group));
    if (sequence.tables[group].first_block() <= needed) continue;
    return Status::Unsupported(fmt::format(
        "the layers with a sliding window of {} tokens hold positions from {} on, too few to cut "
        "the sequence to length: {}",
        geometry_->window(group), sequence.tables[group].first_block() * kPageTokens, length));
  }
  if (sequence.draft != nullptr && length < sequence.draft->segment->end) {
    GiveUpCompaction(&sequence);
  }
  if (length == 0) {  // an empty sequence sees nothing: what windows dropped is not missed
    for (std::size_t group = 0; group < sequence.tables.size(); ++group) {
      PageTable& table = sequence.tables[group];
      ReleaseBlocks(sequence, group, table.first_block(), table.end_block());
      table.DropFrom(table.first_block());
      table.StartAt(0);
    }
    LeaveSegment(&sequence);
  }
  sequence.length = length;
  ShortenNames(&sequence);
  EndReservation(&sequence);
  return Status::Ok();
}

std::uint64_t SequenceSet::live_tokens() const {
  std::int64_t tokens = 0;
  for (const Sequence& sequence : slots_) tokens += sequence.length;
  return static_cast<std::uint64_t>(tokens);
}

}  // namespace swiftkv
