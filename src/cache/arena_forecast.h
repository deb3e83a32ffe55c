// SPDX-License-Identifier: Apache-2.0
// Foretells what an arena will have mapped after frames are freed and allocated, without doing so.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "cache/arena.h"

namespace swiftkv {

// Valid while the arena does not change. Its own memory is scratch: a copy of the arena's page
// counts and the frames that it frees.
class ArenaForecast {
 public:
  explicit ArenaForecast(const Arena* arena);

  // Like Arena::TryAllocate, with a budget that has room.
  void Allocate();
  void Free(std::uint32_t frame);

  // OS pages that frames touch, fewer or more than now.
  std::int64_t mapped_pages() const { return mapped_pages_; }
  // Live frames, more or fewer than now.
  std::int64_t live_frames() const { return live_frames_; }
  // One more than the highest frame that was ever live.
  std::uint32_t highest_end() const { return highest_end_; }

 private:
  std::uint32_t TakeLowest();
  std::uint16_t* CountOf(std::size_t page);

  const Arena* const arena_;
  std::vector<std::uint16_t> frames_per_page_;
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> freed_;
  std::uint32_t next_free_ = 0;  // no frame below was free from the beginning and still is
  std::int64_t mapped_pages_ = 0;
  std::int64_t live_frames_ = 0;
  std::uint32_t highest_end_ = 0;
};

}  // namespace swiftkv
