// SPDX-License-Identifier: Apache-2.0
// Makes positions of a sequence writable, all layer groups or none, and evicts what is cached and
// unused for it where the bound asks for that.
#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "cache/sequence_set.h"

namespace swiftkv {

Status SequenceSet::Reserve(SequenceId id, int num_tokens) {
  Sequence& sequence = GetMutable(id);
  SKV_CHECK(num_tokens >= 0);
  const std::int64_t target = sequence.length + num_tokens;
  if (target <= sequence.reserved_end) return Status::Ok();
  const std::int64_t end_block = BlocksFor(target);
  const std::uint64_t needed = BytesToReserve(sequence, end_block);
  const std::uint64_t peak = budget_->peak_bytes();
  // What cannot fit even into the holes of mapped pages and the place of all that may be evicted,
  // its metadata included, is refused before any work.
  const bool may_fit = needed <= budget_->left_bytes() + FreeBytes() + EvictableBytes();
  if (!may_fit || !TryExtend(&sequence, end_block)) {
    if (may_fit) TakeBack(&sequence);
    budget_->RestorePeak(peak);
    return Status::ResourceExhausted(
        fmt::format("the KV cache has no room for {} more tokens: they need {} bytes, and of {} "
                    "bytes there are left: {}",
                    num_tokens, needed, budget_->limit_bytes(), budget_->left_bytes()));
  }
  for (FramePool* const pool : sequence.format->open.pools) pool->UseHugePages();
  MakeLastBlocksWritable(&sequence);
  sequence.reserved_end = target;
  return Status::Ok();
}

bool SequenceSet::MustCopyLastBlock(const Sequence& sequence, std::size_t group) const {
  if (sequence.length % kPageTokens == 0) return false;
  const std::int64_t block = sequence.length / kPageTokens;
  const PageTable& table = sequence.tables[group];
  return table.IsSealed(block) || !sequence.pool(group, block).IsWritable(table.frame(block));
}

std::uint64_t SequenceSet::BytesToReserve(const Sequence& sequence, std::int64_t end_block) const {
  std::uint64_t bytes = 0;
  for (std::size_t group = 0; group < sequence.tables.size(); ++group) {
    const std::int64_t blocks = end_block - sequence.tables[group].end_block() +
                                (MustCopyLastBlock(sequence, group) ? 1 : 0);
    bytes += static_cast<std::uint64_t>(blocks) * sequence.format->open.layout.frame_bytes[group];
  }
  return bytes;
}

std::uint32_t SequenceSet::AllocateFrame(FramePool* frames) {
  std::uint32_t frame = Arena::kNoFrame;
  WithEviction([&] {
    frame = frames->TryAllocate();
    return frame != Arena::kNoFrame;
  });
  return frame;
}

// Fills pending_ and appends frames. After false, TakeBack restores what was.
bool SequenceSet::TryExtend(Sequence* sequence, std::int64_t end_block) {
  for (std::size_t group = 0; group < sequence->tables.size(); ++group) {
    pending_[group] = {sequence->tables[group].capacity(), Arena::kNoFrame};
  }
  for (std::size_t group = 0; group < sequence->tables.size(); ++group) {
    FramePool& frames = *sequence->format->open.pools[group];
    PageTable& table = sequence->tables[group];
    if (MustCopyLastBlock(*sequence, group)) {
      pending_[group].copy = AllocateFrame(&frames);
      if (pending_[group].copy == Arena::kNoFrame) return false;
    }
    const auto blocks = static_cast<std::size_t>(end_block - table.end_block());
    if (!WithEviction([&] { return table.TryMakeRoom(blocks, &ledger_); })) return false;
    for (std::size_t i = 0; i < blocks; ++i) {
      const std::uint32_t frame = AllocateFrame(&frames);
      if (frame == Arena::kNoFrame) return false;
      table.Append(frame);
    }
  }
  return true;
}

void SequenceSet::TakeBack(Sequence* sequence) {
  const std::int64_t end_block = BlocksFor(sequence->reserved_end);
  for (std::size_t group = 0; group < sequence->tables.size(); ++group) {
    PageTable& table = sequence->tables[group];
    const Pending& pending = pending_[group];
    ReleaseBlocks(*sequence, group, end_block, table.end_block());
    table.DropFrom(end_block);
    table.ShrinkRoom(pending.capacity, &ledger_);
    if (pending.copy != Arena::kNoFrame) {
      sequence->format->open.pools[group]->Release({&pending.copy, 1});
    }
  }
}

void SequenceSet::MakeLastBlocksWritable(Sequence* sequence) {
  if (sequence->length % kPageTokens == 0) return;
  const std::int64_t block = sequence->length / kPageTokens;
  for (std::size_t group = 0; group < sequence->tables.size(); ++group) {
    const std::uint32_t copy = pending_[group].copy;
    PageTable& table = sequence->tables[group];
    if (table.IsSealed(block)) {
      OpenLastBlock(sequence, group, copy);
      continue;
    }
    FramePool& frames = *sequence->format->open.pools[group];
    const std::uint32_t last = table.frame(block);
    if (copy == Arena::kNoFrame) {
      frames.DropTwin(last);  // it will no longer hold the same tokens
      continue;
    }
    std::memcpy(frames.arena().Frame(copy), frames.arena().Frame(last),
                sequence->format->open.layout.frame_bytes[group]);
    table.Replace(block, copy);
    frames.Release({&last, 1});
  }
}

std::uint64_t SequenceSet::EvictableBytes() const {
  std::uint64_t bytes = index_.reclaimable_bytes() + segments_.reclaimable_bytes();
  if (bytes == 0) return 0;
  bytes += index_.metadata_bytes() + index_.heap_bytes() + segments_.heap_bytes();
  for (const auto& pool : pools()) bytes += pool->keeper_bytes();
  return bytes;
}

std::uint64_t SequenceSet::FreeBytes() const {
  std::uint64_t bytes = 0;
  for (const auto& pool : pools()) bytes += pool->free_bytes();
  return bytes;
}

}  // namespace swiftkv
