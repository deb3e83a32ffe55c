// SPDX-License-Identifier: Apache-2.0
// Compacts sequences piece by piece, beside what will be replaced.
//
// Between pieces others may use the cache: pages are taken at the beginning, the blocks of the
// sequence let go of at the end, and the draft goes with the sequence.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"
#include "cache/compaction.h"
#include "cache/segment_draft.h"
#include "cache/sequence_set.h"

namespace swiftkv {
namespace {

// To the last byte that the name had on the heap.
void DropName(CompressedSegment* segment) {
  segment->findable = false;
  SegmentName name;
  std::swap(segment->name, name);
  std::vector<PageTable>().swap(segment->windows);
}

}  // namespace

Result<bool> SequenceSet::BeginCompaction(SequenceId id, const CompactionOrder& order) {
  Sequence& sequence = GetMutable(id);
  GiveUpCompaction(&sequence);
  SKV_ASSIGN_OR_RETURN(std::unique_ptr<CompressedSegment> segment,
                       DraftSegment({geometry_, sequence.length, sequence.segment, &order}));
  segment->format = sequence.format;
  std::uint64_t name_bytes = 0;
  NameSegment(sequence, order, segment.get());
  if (segment->findable) {
    // Copies of windows are made at once, and where it is there nothing is to be copied.
    const bool has_windows = std::any_of(geometry_->layers.begin(), geometry_->layers.end(),
                                         [](const LayerShape& layer) { return layer.window > 0; });
    if (has_windows || segments_.FindKey(segment->name.key, sequence.format) != nullptr) {
      return false;
    }
    name_bytes = segment->heap_bytes();
    DropName(segment.get());
    name_bytes -= segment->heap_bytes();
  }
  if (!HasRoomBeside(*segment, name_bytes) ||
      !WithEviction([&] { return ledger_.TryAdd(name_bytes); })) {
    return false;
  }
  const bool is_booked = WithEviction([&] { return segments_.TryBook(*segment); });
  if (!is_booked || !TakePools(segment.get()).ok() || !TryTakePages(segment.get())) {
    if (is_booked) segments_.Unbook(*segment);
    ledger_.Remove(name_bytes);
    return false;
  }
  CompressedSegment* const made = segments_.Add(std::move(segment));
  const CompactionSource source = {.geometry = geometry_, .sequence = &sequence};
  sequence.draft = std::make_unique<CompactionDraft>(
      CompactionDraft{.segment = made, .copier = SegmentCopier(source, made)});
  sequence.draft->name_bytes = name_bytes;
  return true;
}

// Whether all of it fits beside what is there, with a block for each sequence left: nothing may be
// evicted for a segment that does not fit in the end, and others need not make way for one that is
// there for a while only.
bool SequenceSet::HasRoomBeside(const CompressedSegment& segment, std::uint64_t name_bytes) const {
  std::uint64_t needed = segment.heap_bytes() + name_bytes;
  for (const SegmentRun& run : segment.runs) needed += run.num_pages() * run.layout.bytes;
  for (const std::uint64_t block_bytes : segment.format->open.layout.frame_bytes) {
    needed += live_sequences_ * block_bytes;
  }
  return needed <= budget_->left_bytes() + FreeBytes() + EvictableBytes();
}

// All or none.
bool SequenceSet::TryTakePages(CompressedSegment* segment) {
  for (std::size_t i = 0; i < segment->runs.size(); ++i) {
    const SegmentRun& run = segment->runs[i];
    for (std::uint32_t page = 0; page < run.num_pages(); ++page) {
      std::uint32_t& frame = segment->frames[run.first_page + page];
      frame = AllocateFrame(run.pool);
      if (frame != Arena::kNoFrame) continue;
      for (std::size_t taken = 0; taken <= i; ++taken) {
        const auto frames = segment->FramesOf(segment->runs[taken]);
        segment->runs[taken].pool->Release(taken < i ? frames : frames.first(page));
      }
      return false;
    }
    run.pool->UseHugePages();  // before anything is written there
  }
  return true;
}

bool SequenceSet::ContinueCompaction(SequenceId id, int num_blocks) {
  Sequence& sequence = GetMutable(id);
  SKV_CHECK(sequence.draft != nullptr, "a compaction has begun");
  CompactionDraft& draft = *sequence.draft;
  draft.copier.MoveTo(&sequence);
  const std::int64_t last = draft.segment->end / kPageTokens;
  const std::int64_t end = std::min(last, draft.next_block + num_blocks);
  for (; draft.next_block < end; ++draft.next_block) draft.copier.CopyBlock(draft.next_block);
  return draft.next_block == last;
}

CompactionResult SequenceSet::FinishCompaction(SequenceId id, const CompactionOrder& order) {
  Sequence& sequence = GetMutable(id);
  SKV_CHECK(sequence.draft != nullptr &&
                sequence.draft->next_block * kPageTokens == sequence.draft->segment->end &&
                sequence.draft->segment->end == order.end,
            "all blocks of the order were copied");
  CompactionResult result;
  result.end = order.end;
  result.source_bytes = SourceBytes({.geometry = geometry_, .sequence = &sequence}, order.end);
  result.dropped_tokens = HeldTokens(*geometry_, sequence.segment, order.end);
  result.mapped_before = budget_->used_bytes();
  CompressedSegment* made = sequence.draft->segment;
  const std::uint64_t heap = made->heap_bytes();
  NameSegment(sequence, order, made);
  CompressedSegment* there = nullptr;
  if (made->findable) {
    made->findable = false;
    there = segments_.FindKey(made->name.key, sequence.format);
    if (there == nullptr) {
      made->findable = true;
      const std::uint64_t name_bytes = made->heap_bytes() - heap;
      SKV_CHECK(name_bytes <= sequence.draft->name_bytes, "room for its name was kept");
      sequence.draft->name_bytes -= name_bytes;
    } else {
      DropName(made);
    }
  }
  ledger_.Remove(std::exchange(sequence.draft->name_bytes, 0));  // what has no name after all
  if (there != nullptr) {
    segments_.AddOwner(there);
    GiveUpCompaction(&sequence);
    made = there;
    result.was_there = true;
  } else {
    sequence.draft.reset();
    segments_.CountCompaction();
  }
  for (std::size_t group = 0; group < sequence.tables.size(); ++group) {
    if (geometry_->window(group) != 0) continue;
    ReleaseBlocks(sequence, group, sequence.tables[group].first_block(), order.end / kPageTokens);
  }
  ForgetCompacted(&sequence, order.end);
  if (sequence.segment != nullptr) segments_.RemoveOwner(sequence.segment);
  StandOnSegment(&sequence, made);
  Tell(*made, &result);
  return result;
}

void SequenceSet::GiveUpCompaction(Sequence* sequence) {
  if (sequence->draft == nullptr) return;
  ledger_.Remove(sequence->draft->name_bytes);
  segments_.RemoveOwner(sequence->draft->segment);
  sequence->draft.reset();
}

}  // namespace swiftkv
