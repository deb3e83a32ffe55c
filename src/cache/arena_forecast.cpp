// SPDX-License-Identifier: Apache-2.0
// Repeats the arena's rules on a copy of its page counts.
#include "cache/arena_forecast.h"

#include <algorithm>

#include "base/check.h"

namespace swiftkv {

ArenaForecast::ArenaForecast(const Arena* arena)
    : arena_(arena),
      frames_per_page_(arena->page_counts().begin(), arena->page_counts().end()),
      highest_end_(arena->end_of_live()) {}

std::uint16_t* ArenaForecast::CountOf(std::size_t page) {
  if (page >= frames_per_page_.size()) frames_per_page_.resize(page + 1);
  return &frames_per_page_[page];
}

std::uint32_t ArenaForecast::TakeLowest() {
  while (next_free_ < arena_->end_of_live() && arena_->IsLive(next_free_)) ++next_free_;
  if (!freed_.empty() && freed_.top() < next_free_) {
    const std::uint32_t frame = freed_.top();
    freed_.pop();
    return frame;
  }
  return next_free_++;
}

void ArenaForecast::Allocate() {
  const std::uint32_t frame = TakeLowest();
  const Arena::PageSpan pages = arena_->PagesOf(frame);
  for (std::size_t page = pages.first; page < pages.end; ++page) {
    if ((*CountOf(page))++ == 0) ++mapped_pages_;
  }
  ++live_frames_;
  highest_end_ = std::max(highest_end_, frame + 1);
}

void ArenaForecast::Free(std::uint32_t frame) {
  const Arena::PageSpan pages = arena_->PagesOf(frame);
  for (std::size_t page = pages.first; page < pages.end; ++page) {
    if (--*CountOf(page) == 0) --mapped_pages_;
  }
  --live_frames_;
  freed_.push(frame);
}

}  // namespace swiftkv
