// SPDX-License-Identifier: Apache-2.0
// Allocates the frames of one size class back to back in one reserved range.
//
// Owner: the cache's thread. Invariants:
// - Frame n lies at n * frame_bytes, whatever the OS page size: no remainder is lost.
// - Allocation takes the lowest free frame, so live frames stay dense and low.
// - An OS page is charged exactly while a live frame touches it. It is charged before its first
//   touch and returns to the system when its last frame is freed, so once frames are written,
//   mapped_bytes() is what smaps counts.
// - Where huge pages are used, a stretch of 2 MiB becomes one once every OS page of it is charged:
//   so they cost nothing that is not counted, and are split when a part of them is freed.
// - Bookkeeping reaches to the end of the highest live frame and no further; it is charged too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/charged_array.h"
#include "cache/frame_bitmap.h"
#include "cache/mapped_range.h"
#include "cache/memory_budget.h"
#include "swiftkv/status.h"

namespace swiftkv {

class Arena {
 public:
  static constexpr std::uint32_t kNoFrame = FrameBitmap::kNone;

  // OS pages [first, end).
  struct PageSpan {
    std::size_t first = 0;
    std::size_t end = 0;
  };

  // Reserves addresses for as many frames as the budget's limit could ever hold. `frame_bytes` is a
  // multiple of 64. `huge_pages` allows UseHugePages to do something where the system has them.
  // Errors: ResourceExhausted.
  static Result<std::unique_ptr<Arena>> Create(std::size_t frame_bytes, MemoryBudget* budget,
                                               bool huge_pages = false);

  // Returns the lowest free frame, now live, with unspecified bytes; kNoFrame, and no change, where
  // the budget has no room.
  [[nodiscard]] std::uint32_t TryAllocate();

  // Frees live frames. Neighbouring OS pages that fall empty go back to the system together.
  void Free(const std::uint32_t* frames, std::size_t count);

  // Moves the stretches that were charged in full since the last call into huge pages, as far as
  // the system gives any. Best before they are written: nothing is copied then.
  void UseHugePages();

  std::byte* base() const { return range_.data(); }
  std::byte* Frame(std::uint32_t frame) const {
    return range_.data() + static_cast<std::size_t>(frame) * frame_bytes_;
  }
  std::size_t frame_bytes() const { return frame_bytes_; }
  bool IsLive(std::uint32_t frame) const { return used_.IsUsed(frame); }
  std::uint32_t live_frames() const { return live_frames_; }
  std::uint32_t capacity() const { return capacity_; }
  // One more than the highest live frame.
  std::uint32_t end_of_live() const { return end_of_live_; }

  // The OS pages that a frame touches.
  PageSpan PagesOf(std::uint32_t frame) const;
  // The live frames that touch an OS page; none where the page lies beyond.
  std::span<const std::uint16_t> page_counts() const {
    if (frames_per_page_.size() == 0) return {};
    return {&frames_per_page_[0], frames_per_page_.size()};
  }

  // OS pages that live frames touch.
  std::uint64_t mapped_bytes() const { return mapped_pages_ * OsPageBytes(); }
  // OS pages that were given back to the system so far.
  std::uint64_t returned_bytes() const { return returned_pages_ * OsPageBytes(); }
  // Bookkeeping charged by the arena itself.
  std::uint64_t metadata_bytes() const;
  // Bookkeeping on the heap, fixed at creation; charged by the owner.
  std::uint64_t heap_bytes() const {
    return used_.heap_bytes() + full_stretches_.capacity() * sizeof(std::size_t);
  }
  // Bytes of the whole reserved range.
  std::size_t reserved_bytes() const { return range_.bytes(); }

  // Stops the process unless counts, pages and bitmap agree. O(frames).
  void CheckInvariants() const;

 private:
  static constexpr std::size_t kMostNoted = 64;

  Arena(std::size_t frame_bytes, std::uint32_t capacity)
      : frame_bytes_(frame_bytes), capacity_(capacity) {}

  bool TryGrowBookkeeping(std::uint32_t frame);
  // Notes stretches of huge pages that `pages`, just charged, completed.
  void NoteFullStretches(PageSpan pages);
  bool IsFull(std::size_t stretch) const;
  void ShrinkBookkeeping();
  void Return(PageSpan pages);

  const std::size_t frame_bytes_;
  const std::uint32_t capacity_;
  MemoryBudget* budget_ = nullptr;
  MappedRange range_;                            // [capacity_, frame_bytes_]
  FrameBitmap used_;                             // [end_of_live_]
  ChargedArray<std::uint16_t> frames_per_page_;  // [OS pages] live frames that touch the page
  std::uint32_t end_of_live_ = 0;
  std::uint32_t live_frames_ = 0;
  std::uint64_t mapped_pages_ = 0;
  std::uint64_t returned_pages_ = 0;
  bool huge_pages_ = false;
  int refused_stretches_ = 0;                // one after the other
  std::vector<std::size_t> full_stretches_;  // [<= kMostNoted] to be looked at by UseHugePages
};

}  // namespace swiftkv
