// SPDX-License-Identifier: Apache-2.0
// Compacts sequences: checks the order, makes room, has blocks copied and lets go of what they
// were.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"
#include "cache/compaction.h"
#include "cache/segment_draft.h"
#include "cache/sequence_set.h"

namespace swiftkv {
namespace {

// While it lives, what the budget keeps free may be used.
class HeadroomUse {
 public:
  explicit HeadroomUse(MemoryBudget* budget) : budget_(budget) { budget_->EnterHeadroom(); }
  ~HeadroomUse() { budget_->LeaveHeadroom(); }
  HeadroomUse(const HeadroomUse&) = delete;
  HeadroomUse& operator=(const HeadroomUse&) = delete;

 private:
  MemoryBudget* budget_;
};

}  // namespace

std::uint64_t SequenceSet::SourceBytes(const CompactionSource& source, std::int64_t end) {
  const Sequence& sequence = *source.sequence;
  std::uint64_t bytes = source.old() == nullptr ? 0 : source.old()->page_bytes;
  for (std::size_t group = 0; group < sequence.tables.size(); ++group) {
    if (source.geometry->window(group) != 0) continue;
    for (const BlockStretch& stretch :
         sequence.tables[group].Stretches(source.old_end() / kPageTokens, end / kPageTokens)) {
      bytes +=
          stretch.frames.size() * sequence.format->in(stretch.is_sealed).layout.frame_bytes[group];
    }
  }
  return bytes;
}

Result<CompactionResult> SequenceSet::Compact(SequenceId id, const CompactionOrder& order) {
  Sequence& sequence = GetMutable(id);
  GiveUpCompaction(&sequence);
  CompactionSource source;
  source.geometry = geometry_;
  source.sequence = &sequence;
  source.frees_old =
      sequence.segment != nullptr && sequence.segment->owners == 1 && !sequence.segment->findable;
  SKV_ASSIGN_OR_RETURN(std::unique_ptr<CompressedSegment> segment,
                       DraftSegment({geometry_, sequence.length, sequence.segment, &order}));
  segment->format = sequence.format;
  NameSegment(sequence, order, segment.get());
  CompactionResult result;
  result.end = order.end;
  result.source_bytes = SourceBytes(source, order.end);
  result.dropped_tokens = HeldTokens(*geometry_, sequence.segment, order.end);
  result.mapped_before = budget_->used_bytes();
  CompressedSegment* made = nullptr;
  if (segment->findable) made = segments_.FindKey(segment->name.key, sequence.format);
  result.was_there = made != nullptr;
  if (made != nullptr) {
    segments_.AddOwner(made);
    for (std::size_t group = 0; group < sequence.tables.size(); ++group) {
      if (geometry_->window(group) != 0) continue;
      ReleaseBlocks(sequence, group, 0, order.end / kPageTokens);
    }
    ForgetCompacted(&sequence, order.end);
  } else {
    const HeadroomUse use(budget_);
    SKV_RETURN_IF_ERROR(MakeRoomFor(source, segment.get()));
    result.in_place = Build(source, segment.get());
    CompressedSegment* const old = sequence.segment;
    made = segments_.Add(std::move(segment));
    segments_.CountCompaction();
    ForgetCompacted(&sequence, order.end);
    if (source.frees_old) segments_.Forget(old);
    if (old != nullptr && !source.frees_old) segments_.RemoveOwner(old);
  }
  StandOnSegment(&sequence, made);
  Tell(*made, &result);
  return result;
}

// Fills in what is known once the sequence stands on the segment.
void SequenceSet::Tell(const CompressedSegment& made, CompactionResult* result) const {
  result->findable = made.findable;
  result->kept_tokens = static_cast<std::int64_t>(made.positions.size());
  result->dropped_tokens -= result->kept_tokens;
  result->kept_bytes = made.page_bytes + made.positions.size() * sizeof(std::int32_t);
  result->mapped_after = budget_->used_bytes();
}

// A segment is found by tokens that all were told, of which nothing was dropped before.
void SequenceSet::NameSegment(const Sequence& sequence, const CompactionOrder& order,
                              CompressedSegment* segment) {
  const SequenceNames& names = sequence.names;
  if (!order.shareable || sequence.segment != nullptr || names.node == kNoNode) return;
  if (!names.share || names.end < order.end) return;
  for (std::size_t group = 0; group < sequence.tables.size(); ++group) {
    const WindowBlocks blocks = WindowsAt(*geometry_, group, order.end);
    if (blocks.first < blocks.end && sequence.tables[group].first_block() > blocks.first) return;
  }
  const PrefixTree& tree = index_.tree();
  NodeId at = names.node;
  while (tree[at].block >= order.end / kPageTokens) at = tree[at].parent;
  SegmentName& name = segment->name;
  name.scope = names.scope;
  name.key = SegmentKey(tree[at].key, order.recipe);
  name.lineage = RootKey({.lineage = name.key});
  name.recipe = order.recipe;
  name.recipe.shrink_to_fit();
  name.tokens.resize(static_cast<std::size_t>(order.end));
  for (; !tree[at].is_root(); at = tree[at].parent) {
    std::copy(tree[at].tokens.begin(), tree[at].tokens.end(),
              name.tokens.begin() + std::ptrdiff_t{tree[at].block} * kPageTokens);
  }
  segment->windows.resize(sequence.tables.size());
  segment->findable = true;
}

// Books the segment's heap, sets up its size classes and evicts until what was foretold fits. After
// an error nothing has changed, but for what was evicted and size classes that are new.
Status SequenceSet::MakeRoomFor(const CompactionSource& source, CompressedSegment* segment) {
  const auto refuse = [&](std::int64_t needed) {
    return Status::ResourceExhausted(fmt::format(
        "the KV cache has no room to compact {} tokens: that needs {} bytes, and of {} bytes there "
        "are left: {}",
        segment->end, needed, budget_->limit_bytes(), budget_->left_bytes()));
  };
  const auto heap = static_cast<std::int64_t>(segment->heap_bytes());
  if (!WithEviction([&] { return segments_.TryBook(*segment); })) return refuse(heap);
  Status status = TakePools(segment);
  if (status.ok() && !TryMakeWindowRooms(segment, *source.sequence)) status = refuse(heap);
  const std::uint64_t outside = budget_->limit_bytes() - budget_->headroom_bytes();
  while (status.ok()) {
    const MemoryForecast forecast = ForecastCompaction(source, *segment);
    const auto fits = [&] {
      const auto used = static_cast<std::int64_t>(budget_->used_bytes());
      // Holes between the frames of others are not given back, but can be used again.
      const std::int64_t stays = std::min(forecast.final_bytes, forecast.frame_bytes);
      return used + forecast.peak_bytes <= static_cast<std::int64_t>(budget_->limit_bytes()) &&
             used + stays <= static_cast<std::int64_t>(outside);
    };
    if (fits()) return status;
    // What an eviction gives back may lie where the forecast had counted on room.
    if (!WithEviction(fits)) status = refuse(forecast.peak_bytes + heap);
  }
  for (PageTable& table : segment->windows) table.ShrinkRoom(0, &ledger_);
  segments_.Unbook(*segment);
  return status;
}

Status SequenceSet::TakePools(CompressedSegment* segment) {
  for (SegmentRun& run : segment->runs) {
    for (;;) {
      const Result<FramePool*> pool = formats_.PoolOf(run.layout.bytes);
      if (pool.ok()) {
        run.pool = *pool;
        break;
      }
      if (!EvictNext()) return pool.status();
    }
  }
  return Status::Ok();
}

bool SequenceSet::TryMakeWindowRooms(CompressedSegment* segment, const Sequence& sequence) {
  for (std::size_t group = 0; group < segment->windows.size(); ++group) {
    const WindowBlocks blocks = WindowsAt(*geometry_, group, segment->end);
    if (blocks.first == blocks.end) continue;
    PageTable& table = segment->windows[group];
    table.StartAt(blocks.first, std::min(blocks.end, sequence.tables[group].sealed_end()));
    const auto count = static_cast<std::size_t>(blocks.end - blocks.first);
    if (!WithEviction([&] { return table.TryMakeRoom(count, &ledger_); })) return false;
  }
  return true;
}

// Frames of its own: those of the sequence may be kept by the prefix index, which would then hold
// all blocks before them as long as the segment is there.
void SequenceSet::CopyWindows(const Sequence& sequence, CompressedSegment* segment) {
  for (std::size_t group = 0; group < segment->windows.size(); ++group) {
    const WindowBlocks blocks = WindowsAt(*geometry_, group, segment->end);
    for (std::int64_t block = blocks.first; block < blocks.end; ++block) {
      FramePool& pool = sequence.pool(group, block);
      const std::uint32_t copy = pool.TryAllocate();
      SKV_CHECK(copy != Arena::kNoFrame, "a compaction needs more memory than was foretold");
      const Arena& arena = pool.arena();
      std::copy_n(arena.Frame(sequence.tables[group].frame(block)), arena.frame_bytes(),
                  arena.Frame(copy));
      segment->windows[group].Append(copy);
    }
  }
}

// Returns whether all dense frames that were compacted were freed.
bool SequenceSet::Build(const CompactionSource& source, CompressedSegment* segment) {
  const Sequence& sequence = *source.sequence;
  if (segment->findable) CopyWindows(sequence, segment);
  SegmentCopier copier(source, segment);
  bool frees_all = true;
  for (std::int64_t block = 0; block < segment->end / kPageTokens; ++block) {
    copier.CopyBlock(block);
    if ((block + 1) * kPageTokens <= source.old_end()) {
      if (source.frees_old) copier.ReleaseOldPages((block + 1) * kPageTokens);
      continue;
    }
    for (std::size_t group = 0; group < sequence.tables.size(); ++group) {
      if (geometry_->window(group) != 0) continue;
      FramePool& pool = sequence.pool(group, block);
      const std::uint32_t frame = sequence.tables[group].frame(block);
      frees_all = frees_all && pool.IsWritable(frame);
      pool.Release({&frame, 1});
    }
  }
  for (const SegmentRun& run : segment->runs) run.pool->UseHugePages();
  return frees_all;
}

// Shortens the tables of groups without a window, whose frames were released.
void SequenceSet::ForgetCompacted(Sequence* sequence, std::int64_t end) {
  for (std::size_t group = 0; group < sequence->tables.size(); ++group) {
    if (geometry_->window(group) != 0) continue;
    PageTable& table = sequence->tables[group];
    table.DropBefore(end / kPageTokens);
    table.ShrinkRoom(0, &ledger_);
  }
}

// What comes after the segment is named anew where all of it is computed on top of the segment.
void SequenceSet::StandOnSegment(Sequence* sequence, CompressedSegment* segment) {
  SequenceNames& names = sequence->names;
  sequence->segment = segment;
  names.grade = Worse(names.grade, Quality::kAny);
  Unname(sequence);
  if (!segment->findable || sequence->length != segment->end) return;
  NodeId root = kNoNode;
  WithEviction([&] {
    root = index_.TryRoot(segment->name.lineage, sequence->format, segment->end / kPageTokens);
    return root != kNoNode;
  });
  if (root == kNoNode) return;
  StandOn(sequence, root);
  names.root = segment->name.lineage;
  names.end = segment->end;
  names.published_end = segment->end / kPageTokens;
}

// Of a sequence that is empty again.
void SequenceSet::LeaveSegment(Sequence* sequence) {
  if (sequence->segment == nullptr) return;
  Unname(sequence);
  segments_.RemoveOwner(sequence->segment);
  sequence->segment = nullptr;
  sequence->names.root = sequence->names.scope;
  sequence->names.grade = sequence->format->quality();
}

}  // namespace swiftkv
