// SPDX-License-Identifier: Apache-2.0
// Grows and slides page tables; both are amortised O(1) a block.
#include "cache/page_table.h"

#include <algorithm>

#include "base/check.h"

namespace swiftkv {
namespace {

constexpr std::size_t kEntryBytes = sizeof(std::uint32_t);
constexpr std::size_t kSmallest = 16;  // blocks: 256 tokens

}  // namespace

bool PageTable::TryMakeRoom(std::size_t count, HeapLedger* ledger) {
  if (entries_.size() + count <= entries_.capacity()) return true;
  const std::size_t size = entries_.size() - begin_;
  // Sliding back moves at most as many entries as were dropped since the last time.
  if (begin_ >= size && size + count <= entries_.capacity()) {
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(begin_));
    begin_ = 0;
    return true;
  }
  const std::size_t capacity = std::max({size + count, 2 * size, kSmallest});
  const std::uint64_t before = heap_bytes();
  const std::uint64_t after = capacity * kEntryBytes;
  if (after > before && !ledger->TryAdd(after - before)) return false;
  std::vector<std::uint32_t> larger;
  larger.reserve(capacity);
  SKV_CHECK(larger.capacity() == capacity, "reserve() gives what was asked for");
  larger.assign(entries_.begin() + static_cast<std::ptrdiff_t>(begin_), entries_.end());
  entries_.swap(larger);
  begin_ = 0;
  if (after < before) ledger->Remove(before - after);
  return true;
}

std::uint64_t PageTable::RoomBytes(std::size_t count) {
  return count == 0 ? 0 : std::max(count, kSmallest) * kEntryBytes;
}

void PageTable::ShrinkRoom(std::size_t capacity, HeapLedger* ledger) {
  const std::size_t size = entries_.size() - begin_;
  capacity = std::max(capacity, size);
  if (capacity >= entries_.capacity()) return;
  const std::uint64_t before = heap_bytes();
  std::vector<std::uint32_t> smaller;
  smaller.reserve(capacity);
  smaller.assign(entries_.begin() + static_cast<std::ptrdiff_t>(begin_), entries_.end());
  entries_.swap(smaller);
  begin_ = 0;
  ledger->Remove(before - heap_bytes());
}

std::array<BlockStretch, 3> PageTable::Stretches(std::int64_t first, std::int64_t end) const {
  first = std::max(first, first_block_);
  end = std::min(end, end_block());
  const auto stretch = [&](std::int64_t from, std::int64_t to, bool is_sealed) {
    from = std::max(from, first);
    to = std::min(to, end);
    if (from >= to) return BlockStretch{from, is_sealed, {}};
    return BlockStretch{from, is_sealed,
                        frames().subspan(static_cast<std::size_t>(from - first_block_),
                                         static_cast<std::size_t>(to - from))};
  };
  if (sealed_end_ <= std::max<std::int64_t>(1, first)) {
    return {stretch(first, end, false), BlockStretch{}, BlockStretch{}};
  }
  return {stretch(0, 1, false), stretch(1, sealed_end_, true), stretch(sealed_end_, end, false)};
}

void PageTable::SealNext(std::uint32_t frame) {
  SKV_CHECK(sealed_end_ < end_block());
  Replace(sealed_end_++, frame);
}

void PageTable::OpenNewest(std::uint32_t frame) {
  SKV_CHECK(sealed_end_ > std::max<std::int64_t>(1, first_block_));
  Replace(--sealed_end_, frame);
}

void PageTable::MarkSealed(std::int64_t end) {
  SKV_CHECK(end <= end_block());
  sealed_end_ = std::max(sealed_end_, end);
}

void PageTable::DropBefore(std::int64_t block) {
  SKV_CHECK(block >= first_block_ && block <= end_block());
  begin_ += static_cast<std::size_t>(block - first_block_);
  first_block_ = block;
  sealed_end_ = std::max(sealed_end_, block);
}

void PageTable::DropFrom(std::int64_t block) {
  SKV_CHECK(block >= first_block_ && block <= end_block());
  entries_.resize(begin_ + static_cast<std::size_t>(block - first_block_));
  sealed_end_ = std::max(std::min(sealed_end_, block), std::max<std::int64_t>(1, first_block_));
}

void PageTable::StartAt(std::int64_t block, std::int64_t sealed_end) {
  SKV_CHECK(first_block_ == end_block());
  entries_.clear();
  begin_ = 0;
  first_block_ = block;
  sealed_end_ = std::max({sealed_end, block, std::int64_t{1}});
}

}  // namespace swiftkv
