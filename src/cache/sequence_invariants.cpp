// SPDX-License-Identifier: Apache-2.0
// Recounts everything from the page tables and compares with what is counted as it changes.
#include <algorithm>
#include <map>
#include <vector>

#include "base/check.h"
#include "cache/compaction.h"
#include "cache/sequence_set.h"

namespace swiftkv {
namespace {

void CheckTable(const Sequence& sequence, std::size_t group, int window) {
  const PageTable& table = sequence.tables[group];
  const bool seals = sequence.format->seals(group);
  const bool is_compacted = window == 0 && sequence.segment != nullptr;
  SKV_CHECK(table.end_block() == BlocksFor(sequence.reserved_end),
            "a table ends at its sequence's reservation");
  SKV_CHECK(is_compacted ? table.first_block() == sequence.segment->end / kPageTokens &&
                               sequence.length >= sequence.segment->end
                         : table.first_block() >= 0 &&
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

// Names are those of tokens that the sequence holds, and its blocks are the ones that are findable
// under them as far as it has published.
void SequenceSet::CheckNames(const Sequence& sequence) const {
  const SequenceNames& names = sequence.names;
  SKV_CHECK(names.end <= sequence.length);
  if (names.node == kNoNode) {
    SKV_CHECK(names.end == 0 && names.published_end == 0);
    return;
  }
  const PrefixTree& tree = index_.tree();
  SKV_CHECK(names.share && tree[names.node].format == sequence.format);
  SKV_CHECK(tree[names.node].block + 1 == names.end / kPageTokens, "names end at another block");
  SKV_CHECK(names.published_end <= names.end / kPageTokens);
  for (NodeId id = names.node; !tree[id].is_root(); id = tree[id].parent) {
    const std::int64_t block = tree[id].block;
    if (block >= names.published_end || tree[id].grade != names.grade) continue;
    for (std::size_t group = 0; group < sequence.tables.size(); ++group) {
      const std::uint32_t found = tree.frames(id)[group];
      if (block < sequence.tables[group].first_block() || found == Arena::kNoFrame) continue;
      SKV_CHECK(found == sequence.tables[group].frame(block), "a block is there twice");
    }
  }
}

void SequenceSet::CheckInvariants() const {
  SegmentStore::FrameOwners owners;
  for (const auto& pool : pools()) owners[pool.get()].resize(pool->arena().end_of_live());
  std::vector<const CompressedSegment*> stood_on;
  for (const Sequence& sequence : slots_) {
    if (sequence.segment != nullptr) stood_on.push_back(sequence.segment);
    if (sequence.draft != nullptr) stood_on.push_back(sequence.draft->segment);
  }
  segments_.CheckInvariants(stood_on, &owners);

  std::uint64_t heap = slots_.capacity() * sizeof(Sequence) + formats_.heap_bytes() +
                       index_.heap_bytes() + segments_.heap_bytes();
  std::uint32_t live = 0;
  std::vector<NodeId> standing;
  for (const Sequence& sequence : slots_) {
    if (!sequence.live) {
      SKV_CHECK(sequence.tables.empty() && sequence.length == 0 && sequence.format == nullptr);
      continue;
    }
    ++live;
    if (sequence.draft != nullptr) heap += sequence.draft->name_bytes;
    SKV_CHECK(sequence.length <= sequence.reserved_end);
    SKV_CHECK(sequence.tables.size() == geometry_->groups.size());
    heap += sequence.tables.size() * sizeof(PageTable);
    CheckNames(sequence);
    if (sequence.names.node != kNoNode) standing.push_back(sequence.names.node);
    for (std::size_t group = 0; group < sequence.tables.size(); ++group) {
      const PageTable& table = sequence.tables[group];
      CheckTable(sequence, group, geometry_->window(group));
      heap += table.heap_bytes();
      std::int64_t block = table.first_block();
      for (const std::uint32_t frame : table.frames()) {
        const FramePool& pool = sequence.pool(group, block);
        auto& count = owners.at(&pool);
        SKV_CHECK(frame < count.size(), "a table names a frame beyond the pool");
        ++count[frame];
        const bool writable =
            (block + 1) * kPageTokens > sequence.length && sequence.reserved_end > sequence.length;
        SKV_CHECK(!writable || pool.IsWritable(frame), "others see a reserved slot");
        SKV_CHECK(!writable || pool.twin(frame) == Arena::kNoFrame, "a reserved slot has a twin");
        ++block;
      }
    }
  }
  SKV_CHECK(live == live_sequences_);
  index_.CheckInvariants(standing);

  std::uint64_t charged = ledger_.charged_bytes() + index_.metadata_bytes();
  std::uint64_t kept = 0;
  for (const auto& holder : pools()) {
    for (const auto& pool : pools()) holder->CountTwins(*pool, owners.at(pool.get()));
  }
  for (const auto& pool : pools()) {
    pool->CheckInvariants(owners.at(pool.get()));
    kept += pool->kept_frames();
    charged += pool->arena().mapped_bytes() + pool->metadata_bytes();
  }
  SKV_CHECK(kept == index_.CountFrames(), "a frame is kept that the index does not know");
  SKV_CHECK(heap == ledger_.bytes(), "the heap is booked wrongly");
  SKV_CHECK(charged == budget_->used_bytes(), "what is charged is not what is there");
  SKV_CHECK(budget_->used_bytes() <= budget_->limit_bytes());
  SKV_CHECK(budget_->used_bytes() <= budget_->peak_bytes());
}

}  // namespace swiftkv
