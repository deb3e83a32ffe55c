// SPDX-License-Identifier: Apache-2.0
// Charges and returns the OS pages that live frames touch.
#include "cache/arena.h"

#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"

namespace swiftkv {

Result<std::unique_ptr<Arena>> Arena::Create(std::size_t frame_bytes, MemoryBudget* budget,
                                             bool huge_pages) {
  SKV_CHECK(frame_bytes > 0 && frame_bytes % 64 == 0);
  const std::uint64_t frames = budget->limit_bytes() / frame_bytes;
  const auto capacity = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(frames, 1, FrameBitmap::kNone - std::uint64_t{1}));
  std::unique_ptr<Arena> arena(new Arena(frame_bytes, capacity));
  arena->budget_ = budget;
  const std::size_t bytes = capacity * frame_bytes;
  arena->huge_pages_ = huge_pages && bytes >= kHugePageBytes && SystemHasHugePages();
  if (arena->huge_pages_) arena->full_stretches_.reserve(kMostNoted);
  SKV_ASSIGN_OR_RETURN(
      arena->range_,
      MappedRange::Reserve(bytes, "swiftkv frames", arena->huge_pages_ ? kHugePageBytes : 0));
  SKV_ASSIGN_OR_RETURN(arena->used_, FrameBitmap::Create(capacity, budget));
  SKV_ASSIGN_OR_RETURN(arena->frames_per_page_,
                       ChargedArray<std::uint16_t>::Create(OsPages(arena->range_.bytes()),
                                                           "swiftkv page counts", budget));
  return arena;
}

Arena::PageSpan Arena::PagesOf(std::uint32_t frame) const {
  const std::size_t begin = static_cast<std::size_t>(frame) * frame_bytes_;
  return {begin / OsPageBytes(), OsPages(begin + frame_bytes_)};
}

bool Arena::TryGrowBookkeeping(std::uint32_t frame) {
  if (frame < end_of_live_) return true;
  if (used_.TryGrow(frame + 1) && frames_per_page_.TryGrow(PagesOf(frame).end)) return true;
  ShrinkBookkeeping();
  return false;
}

void Arena::ShrinkBookkeeping() {
  used_.Shrink(end_of_live_);
  frames_per_page_.Shrink(end_of_live_ == 0 ? 0 : PagesOf(end_of_live_ - 1).end);
}

std::uint32_t Arena::TryAllocate() {
  const std::uint32_t frame = used_.LowestFree();
  if (frame == kNoFrame || !TryGrowBookkeeping(frame)) return kNoFrame;
  const PageSpan pages = PagesOf(frame);
  std::uint64_t fresh = 0;
  for (std::size_t page = pages.first; page < pages.end; ++page) {
    if (frames_per_page_[page] == 0) ++fresh;
  }
  if (!budget_->TryCharge(fresh * OsPageBytes())) {
    ShrinkBookkeeping();
    return kNoFrame;
  }
  for (std::size_t page = pages.first; page < pages.end; ++page) ++frames_per_page_[page];
  used_.Use(frame);
  mapped_pages_ += fresh;
  ++live_frames_;
  end_of_live_ = std::max(end_of_live_, frame + 1);
  if (huge_pages_ && fresh > 0) NoteFullStretches(pages);
  return frame;
}

bool Arena::IsFull(std::size_t stretch) const {
  const std::size_t pages = kHugePageBytes / OsPageBytes();
  if ((stretch + 1) * pages > frames_per_page_.size()) return false;
  const std::uint16_t* const counts = &frames_per_page_[stretch * pages];
  return std::all_of(counts, counts + pages, [](std::uint16_t count) { return count != 0; });
}

void Arena::NoteFullStretches(PageSpan pages) {
  const std::size_t pages_per_stretch = kHugePageBytes / OsPageBytes();
  const std::size_t end = (pages.end + pages_per_stretch - 1) / pages_per_stretch;
  for (std::size_t i = pages.first / pages_per_stretch; i < end; ++i) {
    if (!IsFull(i)) continue;
    if (full_stretches_.size() == kMostNoted) UseHugePages();
    full_stretches_.push_back(i);
  }
}

void Arena::UseHugePages() {
  constexpr int kMostRefusals = 4;  // the system has none left, and searching takes its time
  std::sort(full_stretches_.begin(), full_stretches_.end());
  for (std::size_t i = 0; i < full_stretches_.size() && refused_stretches_ < kMostRefusals;) {
    const std::size_t first = full_stretches_[i];
    std::size_t end = first;
    for (; i < full_stretches_.size() && full_stretches_[i] <= end; ++i) {
      if (full_stretches_[i] == end && IsFull(end)) ++end;
    }
    if (end == first) continue;  // a part of it was freed meanwhile
    const bool given = range_.UseHugePages(first * kHugePageBytes, (end - first) * kHugePageBytes);
    refused_stretches_ = given ? 0 : refused_stretches_ + 1;
  }
  full_stretches_.clear();
}

void Arena::Free(const std::uint32_t* frames, std::size_t count) {
  PageSpan empty;  // pages to return, grown while they are neighbours
  bool highest_freed = false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t frame = frames[i];
    used_.Free(frame);
    --live_frames_;
    highest_freed |= frame + 1 == end_of_live_;
    const PageSpan pages = PagesOf(frame);
    for (std::size_t page = pages.first; page < pages.end; ++page) {
      if (--frames_per_page_[page] != 0) continue;
      if (page == empty.end && empty.first != empty.end) {
        ++empty.end;
      } else if (page + 1 == empty.first) {
        --empty.first;
      } else {
        Return(empty);
        empty = {page, page + 1};
      }
    }
  }
  Return(empty);
  if (!highest_freed) return;
  end_of_live_ = used_.EndOfUsed(end_of_live_);
  ShrinkBookkeeping();
}

void Arena::Return(PageSpan pages) {
  const std::size_t count = pages.end - pages.first;
  if (count == 0) return;
  range_.Discard(pages.first * OsPageBytes(), count * OsPageBytes());
  budget_->Uncharge(count * OsPageBytes());
  mapped_pages_ -= count;
  returned_pages_ += count;
}

std::uint64_t Arena::metadata_bytes() const {
  return used_.charged_bytes() + frames_per_page_.charged_bytes();
}

void Arena::CheckInvariants() const {
  used_.CheckInvariants();
  std::vector<std::uint16_t> counts(frames_per_page_.size(), 0);
  std::uint32_t live = 0;
  for (std::uint32_t frame = 0; frame < end_of_live_; ++frame) {
    if (!used_.IsUsed(frame)) continue;
    ++live;
    const PageSpan pages = PagesOf(frame);
    SKV_CHECK(pages.end <= counts.size(), "a live frame lies beyond the bookkeeping");
    for (std::size_t page = pages.first; page < pages.end; ++page) ++counts[page];
  }
  SKV_CHECK(live == live_frames_);
  SKV_CHECK(end_of_live_ == 0 || used_.IsUsed(end_of_live_ - 1));
  std::uint64_t mapped = 0;
  for (std::size_t page = 0; page < counts.size(); ++page) {
    SKV_CHECK(counts[page] == frames_per_page_[page], "an OS page counts its frames wrongly");
    if (counts[page] != 0) ++mapped;
  }
  SKV_CHECK(mapped == mapped_pages_);
}

}  // namespace swiftkv
