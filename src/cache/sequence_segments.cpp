// SPDX-License-Identifier: Apache-2.0
// Finds segments that others have made, and has sequences stand on them.
#include <fmt/format.h>

#include "base/check.h"
#include "base/status_macros.h"
#include "cache/sequence_set.h"

namespace swiftkv {

CompressedSegment* SequenceSet::FindSegment(const SegmentLookUp& look_up) const {
  SegmentStore::Query query;
  query.scope = look_up.scope;
  query.format = formats_.FindKnown(*look_up.format);
  query.tokens = look_up.tokens;
  query.recipe = look_up.recipe;
  query.most_tokens =
      static_cast<std::int64_t>(look_up.tokens.size()) - (look_up.leaves_one ? 1 : 0);
  const bool may_read = query.format != nullptr && Serves(Quality::kAny, look_up.allowed);
  return may_read ? segments_.Find(query) : nullptr;
}

Result<std::int64_t> SequenceSet::AdoptSegment(SequenceId id, std::span<const std::int32_t> tokens,
                                               std::string_view recipe) {
  Sequence& sequence = GetMutable(id);
  SequenceNames& names = sequence.names;
  if (sequence.length > 0 || !names.AreComplete(0) || !Serves(Quality::kAny, names.allowed)) {
    return 0;
  }
  if (!names.has_asked) names.queried_tokens = tokens.size();
  names.has_asked = true;
  SegmentStore::Query query;
  query.scope = names.scope;
  query.format = sequence.format;
  query.tokens = tokens;
  query.recipe = recipe;
  query.most_tokens = static_cast<std::int64_t>(tokens.size()) - 1;
  CompressedSegment* const segment = segments_.Find(query);
  if (segment == nullptr) return 0;
  EndReservation(&sequence);
  segments_.AddOwner(segment);  // what is about to be used is not evicted
  if (!TryTakeWindows(&sequence, *segment)) {
    segments_.RemoveOwner(segment);
    return Status::ResourceExhausted(
        fmt::format("the KV cache has no room for the page tables of a segment of {} tokens; {} of "
                    "{} bytes are left",
                    segment->end, budget_->left_bytes(), budget_->limit_bytes()));
  }
  for (std::size_t group = 0; group < sequence.tables.size(); ++group) {
    if (geometry_->window(group) == 0) sequence.tables[group].StartAt(segment->end / kPageTokens);
  }
  sequence.length = sequence.reserved_end = segment->end;
  StandOnSegment(&sequence, segment);
  segments_.CountAdoption(segment);
  names.hit_tokens += static_cast<std::uint64_t>(segment->end);
  return segment->end;
}

// After false, nothing has changed.
bool SequenceSet::TryTakeWindows(Sequence* sequence, const CompressedSegment& segment) {
  for (std::size_t group = 0; group < segment.windows.size(); ++group) {
    PageTable& table = sequence->tables[group];
    const std::size_t count = segment.windows[group].frames().size();
    if (WithEviction([&] { return table.TryMakeRoom(count, &ledger_); })) continue;
    for (PageTable& made : sequence->tables) made.ShrinkRoom(0, &ledger_);
    return false;
  }
  for (std::size_t group = 0; group < segment.windows.size(); ++group) {
    const PageTable& from = segment.windows[group];
    if (geometry_->window(group) == 0) continue;
    PageTable& to = sequence->tables[group];
    to.StartAt(from.first_block(), from.sealed_end());
    for (const BlockStretch& stretch : from.Stretches(from.first_block(), from.end_block())) {
      FramePool& pool = *sequence->format->in(stretch.is_sealed).pools[group];
      for (const std::uint32_t frame : stretch.frames) {
        pool.AddReference(frame);
        to.Append(frame);
      }
    }
  }
  return true;
}

Status SequenceSet::PinSegment(const SegmentLookUp& look_up, std::int64_t until_ms) {
  CompressedSegment* const segment = FindSegment(look_up);
  const auto wanted = static_cast<std::int64_t>(look_up.tokens.size()) / kPageTokens * kPageTokens;
  if (segment == nullptr || segment->end != wanted) {
    return Status::NotFound(
        fmt::format("a segment can be pinned once it was made of exactly these tokens, in whole "
                    "blocks, and under this recipe; none ends at: {}",
                    wanted));
  }
  segment->pinned_until = std::max(segment->pinned_until, until_ms);
  return Status::Ok();
}

}  // namespace swiftkv
