// SPDX-License-Identifier: Apache-2.0
// Seals blocks that have become old, in frames of fewer bits, and opens them again to write.
#include "base/check.h"
#include "cache/frame_recoding.h"
#include "cache/sequence_set.h"

namespace swiftkv {

// Sealing is best effort: where the budget has no frame, blocks stay open until a later Commit.
void SequenceSet::SealOldBlocks(Sequence* sequence) {
  const std::int64_t end = SealedEnd(sequence->length);
  for (std::size_t group = 0; group < sequence->tables.size(); ++group) {
    if (!sequence->format->seals(group)) continue;
    while (sequence->tables[group].sealed_end() < end && TrySealNext(sequence, group)) {
    }
    sequence->format->sealed.pools[group]->UseHugePages();
  }
}

bool SequenceSet::TrySealNext(Sequence* sequence, std::size_t group) {
  PageTable& table = sequence->tables[group];
  const StoredFormat& format = *sequence->format;
  FramePool& open = *format.open.pools[group];
  FramePool& sealed = *format.sealed.pools[group];
  const std::uint32_t frame = table.frame(table.sealed_end());
  std::uint32_t twin = open.twin(frame);
  if (twin == Arena::kNoFrame) {
    twin = AllocateFrame(&sealed);
    if (twin == Arena::kNoFrame) return false;
    if (open.IsShared(frame) && !open.TrySetTwin(frame, &sealed, twin)) {
      sealed.Release({&twin, 1});
      return false;
    }
    RecodeFrame(*geometry_, group, {&format.open.layout, open.arena().Frame(frame)},
                {&format.sealed.layout, sealed.arena().Frame(twin)}, kPageTokens);
  } else {
    sealed.AddReference(twin);
  }
  table.SealNext(twin);
  open.Release({&frame, 1});
  return true;
}

// `copy` is a fresh frame of the open layout.
void SequenceSet::OpenLastBlock(Sequence* sequence, std::size_t group, std::uint32_t copy) {
  PageTable& table = sequence->tables[group];
  const StoredFormat& format = *sequence->format;
  FramePool& open = *format.open.pools[group];
  FramePool& sealed = *format.sealed.pools[group];
  const std::uint32_t frame = table.frame(table.sealed_end() - 1);
  SKV_CHECK(table.sealed_end() - 1 == sequence->length / kPageTokens);
  RecodeFrame(*geometry_, group, {&format.sealed.layout, sealed.arena().Frame(frame)},
              {&format.open.layout, open.arena().Frame(copy)},
              static_cast<int>(sequence->length % kPageTokens));
  table.OpenNewest(copy);
  sealed.Release({&frame, 1});
}

}  // namespace swiftkv
