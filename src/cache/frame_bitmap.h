// SPDX-License-Identifier: Apache-2.0
// Finds the lowest free frame in a tree of bitmaps: one step per level of 64.
//
// In level 0 a bit is a frame, set while it is used. In every level above, a bit is a word of the
// level below, set while all bits of that word are set. Level 0 is charged as it grows; the levels
// above, 1/64 of it together, are taken at creation.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/charged_array.h"

namespace swiftkv {

class FrameBitmap {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  // For frames [0, capacity). Errors: ResourceExhausted.
  static Result<FrameBitmap> Create(std::uint32_t capacity, MemoryBudget* budget);

  // Returns the lowest free frame, or kNone when all are used.
  std::uint32_t LowestFree() const;

  // Returns one more than the highest used frame below `end`, or 0: where every frame from `end` on
  // is free, this is the end of the used ones.
  std::uint32_t EndOfUsed(std::uint32_t end) const;

  bool IsUsed(std::uint32_t frame) const;

  // Makes room for frames [0, count); false where the budget has none.
  [[nodiscard]] bool TryGrow(std::uint32_t count) { return words_.TryGrow(Words(count)); }
  // Drops the room of frames from `count` on, all free.
  void Shrink(std::uint32_t count) { words_.Shrink(Words(count)); }

  // The frame has room; Use takes a free one, Free a used one.
  void Use(std::uint32_t frame);
  void Free(std::uint32_t frame);

  std::uint64_t charged_bytes() const { return words_.charged_bytes(); }
  // Bytes of the upper levels, on the heap.
  std::uint64_t heap_bytes() const;

  // Stops the process unless every upper level summarises the one below.
  void CheckInvariants() const;

 private:
  static constexpr std::uint32_t kBits = 64;
  static constexpr std::size_t Words(std::size_t bits) { return (bits + kBits - 1) / kBits; }

  std::uint32_t capacity_ = 0;
  ChargedArray<std::uint64_t> words_;               // level 0
  std::vector<std::vector<std::uint64_t>> levels_;  // level 1 and up; the last has one word
};

}  // namespace swiftkv
