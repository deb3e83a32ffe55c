// SPDX-License-Identifier: Apache-2.0
// Walks and updates the tree of bitmaps.
#include "cache/frame_bitmap.h"

#include <bit>

#include "base/check.h"
#include "base/status_macros.h"

namespace swiftkv {
namespace {

constexpr std::uint64_t kFull = ~std::uint64_t{0};

constexpr std::uint64_t BitOf(std::size_t index) { return std::uint64_t{1} << (index % 64); }

}  // namespace

Result<FrameBitmap> FrameBitmap::Create(std::uint32_t capacity, MemoryBudget* budget) {
  SKV_CHECK(capacity > 0);
  FrameBitmap bitmap;
  bitmap.capacity_ = capacity;
  std::size_t words = Words(capacity);
  SKV_ASSIGN_OR_RETURN(bitmap.words_,
                       ChargedArray<std::uint64_t>::Create(words, "swiftkv frame bitmap", budget));
  do {
    words = Words(words);
    bitmap.levels_.emplace_back(words, 0);
  } while (words > 1);
  return bitmap;
}

std::uint32_t FrameBitmap::LowestFree() const {
  std::size_t index = 0;  // of a word, top level down
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
    if (index >= level->size() || (*level)[index] == kFull) return kNone;
    index = index * kBits + static_cast<std::size_t>(std::countr_one((*level)[index]));
  }
  if (index >= Words(capacity_)) return kNone;
  const std::uint64_t word = index < words_.size() ? words_[index] : 0;
  const std::size_t frame = index * kBits + static_cast<std::size_t>(std::countr_one(word));
  return frame < capacity_ ? static_cast<std::uint32_t>(frame) : kNone;
}

std::uint32_t FrameBitmap::EndOfUsed(std::uint32_t end) const {
  for (std::size_t index = Words(end); index > 0; --index) {
    const std::uint64_t word = words_[index - 1];
    if (word == 0) continue;
    return static_cast<std::uint32_t>(index * kBits) -
           static_cast<std::uint32_t>(std::countl_zero(word));
  }
  return 0;
}

bool FrameBitmap::IsUsed(std::uint32_t frame) const {
  const std::size_t index = frame / kBits;
  return index < words_.size() && (words_[index] & BitOf(frame)) != 0;
}

void FrameBitmap::Use(std::uint32_t frame) {
  std::size_t index = frame / kBits;
  SKV_CHECK(frame < capacity_ && index < words_.size() && (words_[index] & BitOf(frame)) == 0);
  words_[index] |= BitOf(frame);
  bool full = words_[index] == kFull;
  for (auto level = levels_.begin(); full && level != levels_.end(); ++level) {
    (*level)[index / kBits] |= BitOf(index);
    index /= kBits;
    full = (*level)[index] == kFull;
  }
}

void FrameBitmap::Free(std::uint32_t frame) {
  std::size_t index = frame / kBits;
  SKV_CHECK(index < words_.size() && (words_[index] & BitOf(frame)) != 0);
  bool was_full = words_[index] == kFull;
  words_[index] &= ~BitOf(frame);
  for (auto level = levels_.begin(); was_full && level != levels_.end(); ++level) {
    std::uint64_t& word = (*level)[index / kBits];
    was_full = word == kFull;
    word &= ~BitOf(index);
    index /= kBits;
  }
}

std::uint64_t FrameBitmap::heap_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& level : levels_) bytes += level.capacity() * sizeof(std::uint64_t);
  return bytes;
}

void FrameBitmap::CheckInvariants() const {
  for (std::size_t depth = 0; depth < levels_.size(); ++depth) {
    const std::size_t below = depth == 0 ? words_.size() : levels_[depth - 1].size();
    for (std::size_t index = 0; index < levels_[depth].size() * kBits; ++index) {
      const bool is_full =
          index < below && (depth == 0 ? words_[index] : levels_[depth - 1][index]) == kFull;
      const bool says_full = (levels_[depth][index / kBits] & BitOf(index)) != 0;
      SKV_CHECK(is_full == says_full, "an upper level of the bitmap is stale");
    }
  }
}

}  // namespace swiftkv
