// SPDX-License-Identifier: Apache-2.0
// Counts the owners of frames: a frame lives while it has one, and is shared while it has more.
//
// Owner: the cache's thread. A frame with two or more owners never changes its bytes; who wants to
// write copies it first. States of a frame:
//     free -> private (Allocate) <-> shared (AddReference, Release) ; private -> free (Release)
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cache/arena.h"

namespace swiftkv {

class FramePool {
 public:
  struct Options {
    std::size_t frame_bytes = 0;  // a multiple of 64
    bool poison = false;          // fill fresh and freed frames with 0xFF, NaN in floating formats
  };

  // Errors: ResourceExhausted.
  static Result<std::unique_ptr<FramePool>> Create(const Options& options, MemoryBudget* budget);

  // Returns a frame with one owner, or Arena::kNoFrame where the budget has no room.
  [[nodiscard]] std::uint32_t TryAllocate();

  void AddReference(std::uint32_t frame);

  // Takes one owner from each frame; those without owners are freed together.
  void Release(std::span<const std::uint32_t> frames);

  std::uint32_t references(std::uint32_t frame) const { return references_[frame]; }
  bool IsShared(std::uint32_t frame) const { return references_[frame] > 1; }

  std::uint64_t private_bytes() const;
  std::uint64_t shared_bytes() const;
  // Mapped bytes in no frame.
  std::uint64_t free_bytes() const;
  std::uint64_t metadata_bytes() const;
  // Bookkeeping on the heap, fixed at creation; charged by the owner.
  std::uint64_t heap_bytes() const { return arena_->heap_bytes(); }

  const Arena& arena() const { return *arena_; }

  // Stops the process unless `expected` (owners of every frame below arena().end_of_live()) is what
  // the pool counts.
  void CheckInvariants(std::span<const std::uint32_t> expected) const;

 private:
  explicit FramePool(const Options& options) : options_(options) {}

  // Frees frames whose last owner has gone.
  void Free(std::span<const std::uint32_t> frames);

  const Options options_;
  std::unique_ptr<Arena> arena_;
  ChargedArray<std::uint32_t> references_;  // [arena_->end_of_live()]
  std::uint32_t shared_frames_ = 0;         // with two or more owners
};

}  // namespace swiftkv
