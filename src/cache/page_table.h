// SPDX-License-Identifier: Apache-2.0
// Maps the blocks of one sequence to the frames of one layer group.
//
// Holds blocks [first_block, end_block). Blocks before the first have left the group's sliding
// window; a group that sees everything starts at 0. Frames lie in one piece, so that a kernel's
// view is a pointer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/heap_ledger.h"

namespace swiftkv {

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
  // Forgets blocks before `block`, or from `block` on.
  void DropBefore(std::int64_t block);
  void DropFrom(std::int64_t block);

  // Starts an empty table at `block`.
  void StartAt(std::int64_t block);

  std::size_t capacity() const { return entries_.capacity(); }
  std::uint64_t heap_bytes() const { return entries_.capacity() * sizeof(std::uint32_t); }

 private:
  std::int64_t first_block_ = 0;
  std::size_t begin_ = 0;               // index of first_block_ in entries_
  std::vector<std::uint32_t> entries_;  // [begin_ + blocks] frames
};

}  // namespace swiftkv
