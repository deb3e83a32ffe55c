// SPDX-License-Identifier: Apache-2.0
// Owns the sequences of a cache: their lengths, page tables and claims on frames.
//
// Owner: the cache's thread. Invariants, for every sequence and layer group:
// - length <= reserved_end, and the table ends at the block that holds reserved_end - 1.
// - The table starts at the oldest block that a query at `length` sees through the group's window,
//   or before it.
// - Slots [length, reserved_end) lie in open frames (cache/format_plan.h) with one owner, no keeper
//   and no twin: writing there changes nobody else's tokens. Fork and Truncate end a reservation,
//   because they would break this.
// - Blocks are sealed by Commit alone, in order, once their tokens are older than the newest 128;
//   what the bound has no room for waits for a later Commit. Truncate may leave sealed blocks among
//   the newest tokens: the bits that they lost do not come back.
// - Where the sequence stands on a segment, tables of groups without a window start at its end, and
//   length lies there or after it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/cache_formats.h"
#include "cache/cache_geometry.h"
#include "cache/heap_ledger.h"
#include "cache/page_table.h"
#include "cache/prefix_match.h"
#include "cache/segment_store.h"
#include "cache/sequence_names.h"

namespace swiftkv {

struct CompactionDraft;
struct CompactionSource;

struct Sequence {
  Sequence();
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&& other) noexcept;
  ~Sequence();

  const StoredFormat* format = nullptr;  // null in a free slot
  std::int64_t length = 0;               // tokens committed, dropped ones included
  std::int64_t reserved_end = 0;         // positions [length, reserved_end) are writable
  std::vector<PageTable> tables;         // [groups]; empty in a free slot
  SequenceNames names;
  CompressedSegment* segment = nullptr;    // that it stands on, or null
  std::unique_ptr<CompactionDraft> draft;  // of the segment that it will stand on, or null
  std::uint32_t generation = 0;            // tells ids of a reused slot apart
  std::uint32_t next_free = 0;             // in a free slot: the next one
  bool live = false;

  // The size class of one block's frame.
  FramePool& pool(std::size_t group, std::int64_t block) const {
    return *format->in(tables[group].IsSealed(block)).pools[group];
  }
};

class SequenceSet {
 public:
  // `geometry` and `budget` outlive the set. `pool_options` as in CacheFormats, but for the keeper.
  SequenceSet(const CacheGeometry* geometry, MemoryBudget* budget,
              const FramePool::Options& pool_options);
  // Errors: ResourceExhausted.
  Status Open() { return index_.Open(); }

  // Sets a format up before a sequence needs it. Errors: those of CacheFormats::Find.
  Result<const StoredFormat*> Know(const KvFormat& format);

  // The operations of KvCache (swiftkv/kv_cache.h). `root` is the key of the scope.
  Result<SequenceId> CreateSequence(const StoredFormat* format);
  Result<SequenceId> CreateSequence(const StoredFormat* format, const BlockKey& root,
                                    const PrefixScope& scope);
  Result<SequenceId> Fork(SequenceId parent);
  void Release(SequenceId id);
  Status Reserve(SequenceId id, int num_tokens);
  void Commit(SequenceId id, int num_tokens);
  void Commit(SequenceId id, std::span<const std::int32_t> tokens);
  PrefixHit FindPrefix(const KvFormat& format, const BlockKey& root, Quality allowed,
                       std::span<const std::int32_t> tokens) const;
  Result<PrefixHit> AdoptPrefix(SequenceId id, std::span<const std::int32_t> tokens);
  void WorsenGrade(SequenceId id, Quality grade);
  Status PinPrefix(const KvFormat& format, const BlockKey& root, Quality allowed,
                   std::span<const std::int32_t> tokens, std::int64_t until_ms);
  void SetTime(std::int64_t milliseconds);
  Status UnpinPrefix(const KvFormat& format, const BlockKey& root,
                     std::span<const std::int32_t> tokens);
  DroppedPrefixes DropPrefixes();
  DroppedPrefixes DropPrefixes(const BlockKey& root);
  Status Truncate(SequenceId id, std::int64_t length);
  Result<CompactionResult> Compact(SequenceId id, const CompactionOrder& order);
  Result<bool> BeginCompaction(SequenceId id, const CompactionOrder& order);
  bool ContinueCompaction(SequenceId id, int num_blocks);
  CompactionResult FinishCompaction(SequenceId id, const CompactionOrder& order);
  // What a look-up of segments goes by.
  struct SegmentLookUp {
    const KvFormat* format = nullptr;
    BlockKey scope;
    Quality allowed = Quality::kExact;
    std::span<const std::int32_t> tokens;
    std::string_view recipe;
    bool leaves_one = true;  // the last token is not looked for
  };
  CompressedSegment* FindSegment(const SegmentLookUp& look_up) const;
  Result<std::int64_t> AdoptSegment(SequenceId id, std::span<const std::int32_t> tokens,
                                    std::string_view recipe);
  Status PinSegment(const SegmentLookUp& look_up, std::int64_t until_ms);

  // Stops the process where `id` names no live sequence.
  const Sequence& Get(SequenceId id) const;

  const std::vector<std::unique_ptr<FramePool>>& pools() const { return formats_.pools(); }
  const HeapLedger& ledger() const { return ledger_; }
  const PrefixIndex& index() const { return index_; }
  const SegmentStore& segments() const { return segments_; }

  std::uint64_t live_tokens() const;

  // Stops the process unless everything that is counted equals what is there. O(blocks).
  void CheckInvariants() const;

 private:
  void CheckNames(const Sequence& sequence) const;

  static constexpr std::uint32_t kNoSlot = UINT32_MAX;

  // What a group's part of a reservation changed, to be taken back where another group's fails.
  struct Pending {
    std::size_t capacity = 0;              // of the table, before
    std::uint32_t copy = Arena::kNoFrame;  // frame that replaces a shared or sealed last block
  };

  Sequence& GetMutable(SequenceId id) { return const_cast<Sequence&>(Get(id)); }
  std::size_t SlotBytes() const;  // heap of one more sequence, without its tables' rooms

  // Takes a slot; the heap it needs is known to be there.
  SequenceId TakeSlot(const StoredFormat* format);
  void EndReservation(Sequence* sequence);

  // Takes the sequence's references from blocks [first, end) of a group.
  static void ReleaseBlocks(const Sequence& sequence, std::size_t group, std::int64_t first,
                            std::int64_t end);

  // Tries again and again, evicting a cached block in between, until it succeeds or none is left.
  template <typename Try>
  bool WithEviction(const Try& try_once) {
    while (!try_once()) {
      if (!EvictNext()) return false;
    }
    return true;
  }

  // Evicts the cached block or idle segment that is worth least; false where nothing is left.
  bool EvictNext();

  // Returns a frame with one owner, or Arena::kNoFrame where even eviction finds no room.
  std::uint32_t AllocateFrame(FramePool* frames);

  void Advance(Sequence* sequence, std::int64_t num_tokens);
  void CountPrefix(SequenceNames* names);
  void SlideWindows(Sequence* sequence);

  void Name(Sequence* sequence, std::span<const std::int32_t> tokens);
  void ShortenNames(Sequence* sequence);
  void StandOn(Sequence* sequence, NodeId node);
  void Unname(Sequence* sequence);
  void Publish(Sequence* sequence);
  bool PublishBlock(Sequence* sequence, std::int64_t block, NodeId node);
  void TakePublished(Sequence* sequence, std::int64_t block, NodeId node);
  void TakeAllPublished(Sequence* sequence, std::int64_t first, std::int64_t end);

  bool TryAdopt(Sequence* sequence, const PrefixMatch& match);
  std::int64_t FirstAdopted(const PrefixMatch& match, std::size_t group) const;
  void MakePlaceForAdopted(Sequence* sequence, const PrefixMatch& match, std::size_t group);
  // Keeps the block that agrees in part from being evicted meanwhile.
  void HoldTail(const PrefixMatch& match);
  void LetGoOfTail(const PrefixMatch& match);
  void CopyTail(Sequence* sequence, const PrefixMatch& match, std::span<const std::int32_t> tokens);
  void SealOldBlocks(Sequence* sequence);
  bool TrySealNext(Sequence* sequence, std::size_t group);
  void OpenLastBlock(Sequence* sequence, std::size_t group, std::uint32_t copy);

  // Parts of Compact.
  void NameSegment(const Sequence& sequence, const CompactionOrder& order,
                   CompressedSegment* segment);
  Status MakeRoomFor(const CompactionSource& source, CompressedSegment* segment);
  Status TakePools(CompressedSegment* segment);
  bool TryMakeWindowRooms(CompressedSegment* segment, const Sequence& sequence);
  void CopyWindows(const Sequence& sequence, CompressedSegment* segment);
  bool Build(const CompactionSource& source, CompressedSegment* segment);
  void ForgetCompacted(Sequence* sequence, std::int64_t end);
  void StandOnSegment(Sequence* sequence, CompressedSegment* segment);
  void LeaveSegment(Sequence* sequence);
  // The bytes of what layers without a window hold of blocks that a compaction replaces.
  static std::uint64_t SourceBytes(const CompactionSource& source, std::int64_t end);
  void Tell(const CompressedSegment& made, CompactionResult* result) const;
  bool HasRoomBeside(const CompressedSegment& segment, std::uint64_t name_bytes) const;
  bool TryTakePages(CompressedSegment* segment);
  void GiveUpCompaction(Sequence* sequence);
  bool TryTakeWindows(Sequence* sequence, const CompressedSegment& segment);

  bool MustCopyLastBlock(const Sequence& sequence, std::size_t group) const;
  std::uint64_t BytesToReserve(const Sequence& sequence, std::int64_t end_block) const;
  bool TryExtend(Sequence* sequence, std::int64_t end_block);
  void TakeBack(Sequence* sequence);
  void MakeLastBlocksWritable(Sequence* sequence);
  std::uint64_t EvictableBytes() const;
  std::uint64_t CachedBytes() const;
  std::uint64_t FreeBytes() const;

  const CacheGeometry* const geometry_;
  MemoryBudget* const budget_;
  HeapLedger ledger_;
  PrefixIndex index_;      // keeps frames of the pools in formats_
  SegmentStore segments_;  // likewise
  CacheFormats formats_;
  std::vector<Sequence> slots_;
  std::uint32_t first_free_ = kNoSlot;
  std::uint32_t live_sequences_ = 0;
  std::uint32_t next_generation_ = 0;
  std::vector<Pending> pending_;             // [groups]; scratch of Reserve
  std::vector<std::uint32_t> block_frames_;  // [groups]; scratch of Publish
  std::vector<std::int64_t> held_blocks_;    // [groups]; scratch of AdoptPrefix
};

}  // namespace swiftkv
