// SPDX-License-Identifier: Apache-2.0
// Copies survivors into a segment's pages.
#include "cache/compaction.h"

#include <algorithm>

#include "base/check.h"
#include "formats/slot_moving.h"

namespace swiftkv {

SegmentCopier::SegmentCopier(const CompactionSource& source, CompressedSegment* segment)
    : source_(source), segment_(segment), copied_(segment->runs.size()) {
  if (source.old() == nullptr) return;
  old_tokens_.resize(source.old()->runs.size());
  old_freed_.resize(source.old()->runs.size());
}

void SegmentCopier::CopyBlock(std::int64_t block) {
  const std::int64_t limit = (block + 1) * kPageTokens;
  const bool is_dense = limit > source_.old_end();
  for (std::size_t i = 0; i < old_tokens_.size() && !is_dense; ++i) {
    const SegmentRun& run = source_.old()->runs[i];
    const auto positions = source_.old()->PositionsOf(run);
    std::uint32_t& at = old_tokens_[i];
    while (at < run.num_tokens && positions[at] < block * kPageTokens) ++at;
  }
  for (std::size_t i = 0; i < segment_->runs.size(); ++i) {
    const SegmentRun& run = segment_->runs[i];
    const auto positions = segment_->PositionsOf(run);
    const std::uint32_t first = copied_[i];
    std::uint32_t& end = copied_[i];
    while (end < run.num_tokens && positions[end] < limit) ++end;
    if (first == end) continue;
    is_dense ? CopyDense(run, block, first, end) : CopyOld(run, first, end);
  }
}

void SegmentCopier::CopyDense(const SegmentRun& run, std::int64_t block, std::uint32_t first,
                              std::uint32_t end) {
  const Sequence& sequence = *source_.sequence;
  const auto layer = static_cast<std::size_t>(run.layer);
  const auto group = static_cast<std::size_t>(sequence.format->open.layout.places[layer].group);
  const PageTable& table = sequence.tables[group];
  const StoredLayout& stored = sequence.format->in(table.IsSealed(block));
  const LayerPlace& place = stored.layout.places[layer];
  scratch_.page = stored.pools[group]->arena().Frame(table.frame(block)) + place.layer_offset +
                  static_cast<std::size_t>(run.head) * place.head_stride;
  scratch_.format = place.format;
  scratch_.layout = place.layout;
  scratch_.slots.clear();
  const auto positions = segment_->PositionsOf(run);
  for (std::uint32_t i = first; i < end; ++i) {
    scratch_.slots.push_back(static_cast<std::uint8_t>(positions[i] % kPageTokens));
  }
  Move(scratch_, run, first);
}

void SegmentCopier::CopyOld(const SegmentRun& run, std::uint32_t first, std::uint32_t end) {
  const CompressedSegment& old = *source_.old();
  const auto positions = segment_->PositionsOf(run);
  const auto find = [&](std::int32_t position, std::uint32_t* token) {
    for (std::uint32_t i = old.first_run[static_cast<std::size_t>(run.layer)];; ++i) {
      SKV_CHECK(i < old.runs.size() && old.runs[i].layer == run.layer, "the order was checked");
      if (old.runs[i].head != run.head) continue;
      const auto held = old.PositionsOf(old.runs[i]);
      for (std::uint32_t t = old_tokens_[i]; t < held.size() && held[t] <= position; ++t) {
        if (held[t] != position) continue;
        *token = t;
        return &old.runs[i];
      }
    }
  };
  for (std::uint32_t done = first; done < end;) {
    std::uint32_t token = 0;
    const SegmentRun* const from = find(positions[done], &token);
    const std::uint32_t page = token / kPageTokens;
    scratch_.page = from->pool->arena().Frame(old.FramesOf(*from)[page]);
    scratch_.format = from->format;
    scratch_.layout = from->layout;
    scratch_.slots = {static_cast<std::uint8_t>(token % kPageTokens)};
    std::uint32_t next = done + 1;
    for (; next < end; ++next) {
      std::uint32_t at = 0;
      if (find(positions[next], &at) != from || at / kPageTokens != page) break;
      scratch_.slots.push_back(static_cast<std::uint8_t>(at % kPageTokens));
    }
    Move(scratch_, run, done);
    done = next;
  }
}

void SegmentCopier::Move(const Slots& from, const SegmentRun& run, std::uint32_t to) {
  const int dim = source_.geometry->layers[static_cast<std::size_t>(run.layer)].head_dim;
  const PlaneView keys = KeyPlane(from.format, from.layout, dim, from.page);
  const PlaneView values = ValuePlane(from.format, from.layout, dim, from.page);
  std::span<const std::uint8_t> left = from.slots;
  while (!left.empty()) {
    const auto slot = static_cast<int>(to % kPageTokens);
    std::uint32_t& frame = segment_->frames[run.first_page + to / kPageTokens];
    if (frame == Arena::kNoFrame) {
      SKV_CHECK(slot == 0);
      frame = run.pool->TryAllocate();
      SKV_CHECK(frame != Arena::kNoFrame, "a compaction needs more memory than was foretold");
    }
    std::byte* const page = run.pool->arena().Frame(frame);
    const auto count = std::min(left.size(), static_cast<std::size_t>(kPageTokens - slot));
    MutablePlane new_keys = MutableKeyPlane(run.format, run.layout, dim, page);
    new_keys.guide = source_.geometry->guide(run.layer, static_cast<std::size_t>(run.head));
    MoveSlots(*from.format.key, keys, left.first(count), *run.format.key, new_keys, slot);
    MoveSlots(*from.format.value, values, left.first(count), *run.format.value,
              MutableValuePlane(run.format, run.layout, dim, page), slot);
    left = left.subspan(count);
    to += static_cast<std::uint32_t>(count);
  }
}

void SegmentCopier::ReleaseOldPages(std::int64_t end) {
  const CompressedSegment& old = *source_.old();
  for (std::size_t i = 0; i < old.runs.size(); ++i) {
    const SegmentRun& run = old.runs[i];
    const std::uint32_t first = old_freed_[i];
    old_freed_[i] = PagesBelow(old, run, first, end);
    run.pool->Release(old.FramesOf(run).subspan(first, old_freed_[i] - first));
  }
}

}  // namespace swiftkv
