// SPDX-License-Identifier: Apache-2.0
// Finds, keeps and frees compressed segments.
#include "cache/segment_store.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "cache/format_names.h"

namespace swiftkv {
namespace {

constexpr std::size_t kFewestPlaces = 8;

}  // namespace

bool SegmentStore::TryBook(const CompressedSegment& segment) {
  std::uint64_t places = 0;
  if (segments_.size() + num_booked_ == segments_.capacity()) {
    places = std::max(kFewestPlaces, 2 * segments_.capacity()) - segments_.capacity();
  }
  if (!ledger_->TryAdd(segment.heap_bytes() + places * sizeof(void*))) return false;
  if (places > 0) segments_.reserve(segments_.capacity() + places);
  ++num_booked_;
  return true;
}

void SegmentStore::Unbook(const CompressedSegment& segment) {
  --num_booked_;
  GiveBack(segment);
}

void SegmentStore::GiveBack(const CompressedSegment& segment) {
  std::uint64_t heap = segment.heap_bytes();
  if (segments_.empty() && num_booked_ == 0) {
    heap += segments_.capacity() * sizeof(void*);
    std::vector<std::unique_ptr<CompressedSegment>>().swap(segments_);
  }
  ledger_->Remove(heap);
}

CompressedSegment* SegmentStore::Add(std::unique_ptr<CompressedSegment> segment) {
  SKV_CHECK(num_booked_ > 0, "room was booked");
  --num_booked_;
  segment->owners = 1;
  segments_.push_back(std::move(segment));
  return segments_.back().get();
}

void SegmentStore::RemoveOwner(CompressedSegment* segment) {
  SKV_CHECK(segment->owners > 0);
  if (--segment->owners > 0) return;
  if (segment->findable) {
    SetAge(segment);
    return;
  }
  ReleasePages(*segment);
  Erase(segment);
}

void SegmentStore::Forget(CompressedSegment* segment) {
  SKV_CHECK(segment->owners == 1 && !segment->findable);
  Erase(segment);
}

void SegmentStore::Erase(const CompressedSegment* segment) {
  const auto at = std::find_if(segments_.begin(), segments_.end(),
                               [segment](const auto& known) { return known.get() == segment; });
  SKV_CHECK(at != segments_.end());
  const std::unique_ptr<CompressedSegment> gone = std::move(*at);
  *at = std::move(segments_.back());
  segments_.pop_back();
  GiveBack(*gone);
}

void SegmentStore::ReleasePages(const CompressedSegment& segment) const {
  for (const SegmentRun& run : segment.runs) run.pool->Release(segment.FramesOf(run));
}

void SegmentStore::ReleaseWindows(const CompressedSegment& segment) const {
  std::uint64_t heap = 0;
  for (std::size_t group = 0; group < segment.windows.size(); ++group) {
    const PageTable& table = segment.windows[group];
    for (const BlockStretch& stretch : table.Stretches(table.first_block(), table.end_block())) {
      segment.format->in(stretch.is_sealed).pools[group]->Release(stretch.frames);
    }
    heap += table.heap_bytes();
  }
  ledger_->Remove(heap);
}

void SegmentStore::SetAge(CompressedSegment* segment) const {
  double full_layers = 0;
  for (const LayerShape& layer : geometry_->layers) full_layers += layer.window == 0 ? 1 : 0;
  const double full_share = full_layers / static_cast<double>(geometry_->layers.size());
  double cost = 0;
  for (std::int64_t block = 0; block < segment->end / kPageTokens; ++block) {
    cost += RecomputeCost(block, full_share);
  }
  const auto bytes = static_cast<double>(std::max<std::uint64_t>(1, BytesOf(*segment)));
  segment->age = index_->clock() + cost / bytes;
}

CompressedSegment* SegmentStore::Find(const Query& query) const {
  std::vector<CompressedSegment*> candidates;
  std::int64_t longest = 0;
  for (const auto& segment : segments_) {
    const bool fits = segment->findable && segment->end <= query.most_tokens &&
                      segment->format == query.format && segment->name.scope == query.scope &&
                      segment->name.recipe == query.recipe;
    if (!fits) continue;
    candidates.push_back(segment.get());
    longest = std::max(longest, segment->end);
  }
  CompressedSegment* best = nullptr;
  BlockKey key = query.scope;
  for (std::int64_t end = kPageTokens; end <= longest; end += kPageTokens) {
    key = ChildKey(key,
                   query.tokens.subspan(static_cast<std::size_t>(end - kPageTokens), kPageTokens));
    for (CompressedSegment* const candidate : candidates) {
      if (candidate->end != end) continue;
      const auto tokens = query.tokens.first(static_cast<std::size_t>(end));
      const bool is_it = candidate->name.key == SegmentKey(key, query.recipe) &&
                         std::equal(tokens.begin(), tokens.end(), candidate->name.tokens.begin());
      if (is_it) best = candidate;
    }
  }
  return best;
}

CompressedSegment* SegmentStore::FindKey(const BlockKey& key, const StoredFormat* format) const {
  for (const auto& segment : segments_) {
    if (segment->findable && segment->format == format && segment->name.key == key) {
      return segment.get();
    }
  }
  return nullptr;
}

const CompressedSegment* SegmentStore::EvictionCandidate() const {
  const CompressedSegment* best = nullptr;
  for (const auto& segment : segments_) {
    if (segment->owners > 0 || IsPinned(*segment)) continue;
    if (best != nullptr && best->age <= segment->age) continue;
    // With a root there is something findable below it.
    if (index_->tree().FindRoot(segment->name.lineage, segment->format) == kNoNode) {
      best = segment.get();
    }
  }
  return best;
}

void SegmentStore::Evict(const CompressedSegment* segment) {
  index_->Advance(segment->age);
  ++totals_.evictions;
  ReleaseWindows(*segment);
  ReleasePages(*segment);
  Erase(segment);
}

std::uint64_t SegmentStore::Drop(CompressedSegment* segment) {
  const auto blocks = static_cast<std::uint64_t>(segment->end / kPageTokens);
  ReleaseWindows(*segment);
  const std::uint64_t heap = segment->heap_bytes();
  segment->findable = false;
  segment->windows = {};
  segment->name = {};
  segment->pinned_until = 0;
  ledger_->Remove(heap - segment->heap_bytes());  // only less: what was given back is anybody's
  if (segment->owners > 0) return blocks;
  ReleasePages(*segment);
  Erase(segment);
  return blocks;
}

std::uint64_t SegmentStore::DropAll() {
  std::uint64_t blocks = 0;
  for (std::size_t i = segments_.size(); i-- > 0;) {
    if (segments_[i]->findable) blocks += Drop(segments_[i].get());
  }
  return blocks;
}

std::uint64_t SegmentStore::DropScope(const BlockKey& scope) {
  std::uint64_t blocks = 0;
  for (std::size_t i = segments_.size(); i-- > 0;) {
    if (!segments_[i]->findable || segments_[i]->name.scope != scope) continue;
    blocks += index_->Clear(segments_[i]->name.lineage);
    blocks += Drop(segments_[i].get());
  }
  return blocks;
}

std::uint64_t SegmentStore::BytesOf(const CompressedSegment& segment) const {
  std::uint64_t bytes = segment.page_bytes;
  for (std::size_t group = 0; group < segment.windows.size(); ++group) {
    const PageTable& table = segment.windows[group];
    for (const BlockStretch& stretch : table.Stretches(table.first_block(), table.end_block())) {
      const FramePool& pool = *segment.format->in(stretch.is_sealed).pools[group];
      for (const std::uint32_t frame : stretch.frames) {
        if (pool.references(frame) == 1) bytes += pool.arena().frame_bytes();
        const FramePool::Twin twin = pool.OwnTwin(frame);
        if (twin.pool != nullptr) bytes += twin.pool->arena().frame_bytes();
      }
    }
  }
  return bytes;
}

std::uint64_t SegmentStore::shared_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& segment : segments_) bytes += segment->owners > 1 ? segment->page_bytes : 0;
  return bytes;
}

std::uint64_t SegmentStore::idle_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& segment : segments_) bytes += segment->owners == 0 ? BytesOf(*segment) : 0;
  return bytes;
}

std::uint64_t SegmentStore::reclaimable_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& segment : segments_) {
    if (segment->owners == 0 && !IsPinned(*segment)) bytes += BytesOf(*segment);
  }
  return bytes;
}

SegmentTotals SegmentStore::totals() const {
  SegmentTotals totals = totals_;
  totals.segments = segments_.size();
  for (const auto& segment : segments_) {
    if (segment->findable) ++totals.findable;
    if (segment->owners == 0) ++totals.idle;
    totals.users += segment->owners;
    totals.page_bytes += segment->page_bytes;
  }
  return totals;
}

std::vector<SegmentDescription> SegmentStore::Describe() const {
  std::int64_t heads = 0;
  for (const LayerShape& layer : geometry_->layers) heads += layer.window == 0 ? layer.kv_heads : 0;
  std::vector<SegmentDescription> all;
  for (const auto& segment : segments_) {
    SegmentDescription& one = all.emplace_back();
    one.recipe = segment->name.recipe;
    one.format = NamesOf(segment->format->asked);
    for (const SegmentRun& run : segment->runs) {
      const KvFormat format = NamesOf(run.format);
      if (std::find(one.formats.begin(), one.formats.end(), format) == one.formats.end()) {
        one.formats.push_back(format);
      }
    }
    one.end = segment->end;
    one.kept_tokens = (static_cast<std::int64_t>(segment->positions.size()) + heads - 1) / heads;
    one.bytes = segment->page_bytes;
    one.users = segment->owners;
    one.adoptions = segment->adoptions;
    one.findable = segment->findable;
  }
  return all;
}

std::uint64_t SegmentStore::heap_bytes() const {
  std::uint64_t bytes = segments_.capacity() * sizeof(void*);
  for (const auto& segment : segments_) {
    bytes += segment->heap_bytes();
    for (const PageTable& table : segment->windows) bytes += table.heap_bytes();
  }
  return bytes;
}

}  // namespace swiftkv
