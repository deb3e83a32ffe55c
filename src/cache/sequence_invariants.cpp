// SPDX-License-Identifier: Apache-2.0
// Recounts everything from the page tables and compares with what is counted as it changes.
#include <algorithm>
#include <map>
#include <vector>

#include "base/check.h"
#include "cache/sequence_set.h"

namespace swiftkv {
namespace {

void CheckTable(const Sequence& sequence, const PageTable& table, int window, bool seals) {
  SKV_CHECK(table.end_block() == BlocksFor(sequence.reserved_end),
            "a table ends at its sequence's reservation");
  SKV_CHECK(table.first_block() >= 0 &&
                table.first_block() <= OldestVisibleBlock(sequence.length, window),
            "a table lacks blocks that its window sees");
  const std::int64_t sealed_begin = std::max<std::int64_t>(1, table.first_block());
  SKV_CHECK(table.sealed_end() >= sealed_begin);
  SKV_CHECK(table.sealed_end() == sealed_begin || seals, "a group without sealed frames has one");
  // After Truncate the last block may be a sealed one, until it is to be written.
  const bool is_written = sequence.reserved_end > sequence.length;
  SKV_CHECK(table.sealed_end() <= std::max(sealed_begin, is_written ? sequence.length / kPageTokens
                                                                    : BlocksFor(sequence.length)),
            "a block is sealed that may be written");
}

}  // namespace

void SequenceSet::CheckInvariants() const {
  std::map<const FramePool*, std::vector<std::uint32_t>> owners;
  for (const auto& pool : pools()) owners[pool.get()].resize(pool->arena().end_of_live());

  std::uint64_t heap = slots_.capacity() * sizeof(Sequence) + formats_.heap_bytes();
  std::uint32_t live = 0;
  for (const Sequence& sequence : slots_) {
    if (!sequence.live) {
      SKV_CHECK(sequence.tables.empty() && sequence.length == 0 && sequence.format == nullptr);
      continue;
    }
    ++live;
    SKV_CHECK(sequence.length <= sequence.reserved_end);
    SKV_CHECK(sequence.tables.size() == geometry_->groups.size());
    heap += sequence.tables.size() * sizeof(PageTable);
    for (std::size_t group = 0; group < sequence.tables.size(); ++group) {
      const PageTable& table = sequence.tables[group];
      CheckTable(sequence, table, geometry_->window(group), sequence.format->seals(group));
      heap += table.heap_bytes();
      std::int64_t block = table.first_block();
      for (const std::uint32_t frame : table.frames()) {
        const FramePool& pool = sequence.pool(group, block);
        auto& count = owners.at(&pool);
        SKV_CHECK(frame < count.size(), "a table names a frame beyond the pool");
        ++count[frame];
        const bool writable =
            (block + 1) * kPageTokens > sequence.length && sequence.reserved_end > sequence.length;
        SKV_CHECK(!writable || !pool.IsShared(frame), "a reserved slot has two owners");
        SKV_CHECK(!writable || pool.twin(frame) == Arena::kNoFrame, "a reserved slot has a twin");
        ++block;
      }
    }
  }
  SKV_CHECK(live == live_sequences_);

  std::uint64_t charged = ledger_.charged_bytes();
  for (const auto& holder : pools()) {
    for (const auto& pool : pools()) holder->CountTwins(*pool, owners.at(pool.get()));
  }
  for (const auto& pool : pools()) {
    pool->CheckInvariants(owners.at(pool.get()));
    charged += pool->arena().mapped_bytes() + pool->metadata_bytes();
  }
  SKV_CHECK(heap == ledger_.bytes(), "the heap is booked wrongly");
  SKV_CHECK(charged == budget_->used_bytes(), "what is charged is not what is there");
  SKV_CHECK(budget_->used_bytes() <= budget_->limit_bytes());
  SKV_CHECK(budget_->used_bytes() <= budget_->peak_bytes());
}

}  // namespace swiftkv
