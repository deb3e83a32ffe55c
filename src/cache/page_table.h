// SPDX-License-Identifier: Apache-2.0
// Maps the blocks of one sequence to the frames of one layer group.
//
// Blocks [max(1, first_block), sealed_end) lie in frames of the sealed layout, the others in frames
// of the open one (cache/format_plan.h).
//
// Holds blocks [first_block, end_block). Blocks before the first have left the group's sliding
// window; a group that sees everything starts at 0. Frames lie in one piece, so that a kernel's
// view is a pointer.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/heap_ledger.h"

namespace swiftkv {

// Neighbouring blocks of one layout.
struct BlockStretch {
  std::int64_t first = 0;
  bool is_sealed = false;
  std::span<const std::uint32_t> frames;  // of blocks from `first` on
};

class PageTable {
 public:
  std::int64_t first_block() const { return first_block_; }
  std::int64_t end_block() const {
    return first_block_ + static_cast<std::int64_t>(entries_.size() - begin_);
  }

  // The frames of blocks [first_block, end_block).
  std::span<const std::uint32_t> frames() const {
    return {entries_.data() + begin_, entries_.size() - begin_};
  }
  std::uint32_t frame(std::int64_t block) const {
    return entries_[begin_ + static_cast<std::size_t>(block - first_block_)];
  }

  std::int64_t sealed_end() const { return sealed_end_; }
  bool IsSealed(std::int64_t block) const { return block >= 1 && block < sealed_end_; }

  // Cuts the blocks of [first, end) that are there by layout, oldest first: block 0, what is
  // sealed, the rest. Some stretches may be empty; open neighbours make one stretch.
  std::array<BlockStretch, 3> Stretches(std::int64_t first, std::int64_t end) const;

  // Makes room for `count` more blocks, booked in `ledger`; false, and no change, where it has
  // none.
  [[nodiscard]] bool TryMakeRoom(std::size_t count, HeapLedger* ledger);

  // Returns the heap bytes that an empty table books for `count` blocks.
  static std::uint64_t RoomBytes(std::size_t count);

  // Gives room beyond `capacity` blocks back to `ledger`, down to what is in use.
  void ShrinkRoom(std::size_t capacity, HeapLedger* ledger);

  // Adds a block at the end; room was made.
  void Append(std::uint32_t frame) { entries_.push_back(frame); }
  void Replace(std::int64_t block, std::uint32_t frame) {
    entries_[begin_ + static_cast<std::size_t>(block - first_block_)] = frame;
  }
  // Puts the frame of the sealed layout in the place of block sealed_end's.
  void SealNext(std::uint32_t frame);
  // Puts a frame of the open layout in the place of block sealed_end - 1's.
  void OpenNewest(std::uint32_t frame);
  // Says that blocks up to `end` were appended in frames of the sealed layout.
  void MarkSealed(std::int64_t end);
  // Forgets blocks before `block`, or from `block` on.
  void DropBefore(std::int64_t block);
  void DropFrom(std::int64_t block);

  // Starts an empty table at `block`, with blocks up to `sealed_end` to come that are sealed.
  void StartAt(std::int64_t block, std::int64_t sealed_end = 1);

  std::size_t capacity() const { return entries_.capacity(); }
  std::uint64_t heap_bytes() const { return entries_.capacity() * sizeof(std::uint32_t); }

 private:
  std::int64_t first_block_ = 0;
  std::int64_t sealed_end_ = 1;         // >= max(1, first_block_)
  std::size_t begin_ = 0;               // index of first_block_ in entries_
  std::vector<std::uint32_t> entries_;  // [begin_ + blocks] frames
};

}  // namespace swiftkv
