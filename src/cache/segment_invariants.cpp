// SPDX-License-Identifier: Apache-2.0
// Recounts segments: what they hold, who stands on them, and what all of it weighs.
#include <algorithm>

#include "base/check.h"
#include "cache/segment_store.h"

namespace swiftkv {
namespace {

void CheckRuns(const CacheGeometry& geometry, const CompressedSegment& segment) {
  SKV_CHECK(segment.end > 0 && segment.end % kPageTokens == 0);
  SKV_CHECK(segment.first_run.size() == geometry.layers.size() + 1);
  std::uint64_t bytes = 0;
  std::uint32_t pages = 0;
  std::uint32_t tokens = 0;
  std::vector<int> layer_of_position(static_cast<std::size_t>(segment.end), -1);
  int heads = 0;
  for (std::size_t i = 0; i < segment.runs.size(); ++i) {
    const SegmentRun& run = segment.runs[i];
    const LayerShape& shape = geometry.layers[static_cast<std::size_t>(run.layer)];
    SKV_CHECK(shape.window == 0 && run.head >= 0 && run.head < shape.kv_heads);
    const auto layer = static_cast<std::size_t>(run.layer);
    SKV_CHECK(i >= segment.first_run[layer] && i < segment.first_run[layer + 1]);
    const bool same_head =
        i > 0 && segment.runs[i - 1].layer == run.layer && segment.runs[i - 1].head == run.head;
    SKV_CHECK(same_head || i == 0 || segment.runs[i - 1].layer < run.layer ||
                  segment.runs[i - 1].head < run.head,
              "runs are out of order");
    if (!same_head) ++heads;
    SKV_CHECK(run.first_page == pages && run.first_token == tokens && run.num_tokens > 0);
    SKV_CHECK(run.pool->arena().frame_bytes() == run.layout.bytes);
    pages += run.num_pages();
    tokens += run.num_tokens;
    bytes += std::uint64_t{run.num_pages()} * run.layout.bytes;
    std::int32_t previous = -1;
    for (const std::int32_t position : segment.PositionsOf(run)) {
      SKV_CHECK(position > previous && position < segment.end, "positions do not ascend");
      int& seen = layer_of_position[static_cast<std::size_t>(position)];
      SKV_CHECK(seen != heads, "a head keeps a position twice");
      seen = heads;
      previous = position;
    }
  }
  SKV_CHECK(pages == segment.frames.size() && tokens == segment.positions.size());
  SKV_CHECK(bytes == segment.page_bytes);
}

}  // namespace

void SegmentStore::CheckInvariants(std::span<const CompressedSegment* const> stood_on,
                                   FrameOwners* owners) const {
  std::size_t standing = 0;
  for (const auto& segment : segments_) {
    CheckRuns(*geometry_, *segment);
    SKV_CHECK(segment->owners == std::count(stood_on.begin(), stood_on.end(), segment.get()),
              "a segment counts its sequences wrongly");
    standing += segment->owners;
    SKV_CHECK(segment->owners > 0 || segment->findable, "nobody needs a segment");
    SKV_CHECK(segment->findable
                  ? segment->windows.size() == geometry_->groups.size() &&
                        segment->name.tokens.size() == static_cast<std::size_t>(segment->end)
                  : segment->windows.empty() && segment->name.tokens.empty());
    for (const SegmentRun& run : segment->runs) {
      auto& count = owners->at(run.pool);
      for (const std::uint32_t frame : segment->FramesOf(run)) {
        SKV_CHECK(frame < count.size() && count[frame] == 0, "a page has another owner");
        SKV_CHECK(run.pool->keeper_tag(frame) == 0);
        ++count[frame];
      }
    }
    for (std::size_t group = 0; group < segment->windows.size(); ++group) {
      const PageTable& table = segment->windows[group];
      SKV_CHECK(table.frames().empty() ||
                (geometry_->window(group) != 0 && table.end_block() == segment->end / kPageTokens));
      std::int64_t block = table.first_block();
      for (const std::uint32_t frame : table.frames()) {
        FramePool* const pool = segment->format->in(table.IsSealed(block++)).pools[group];
        SKV_CHECK(pool->keeper_tag(frame) == 0, "the index keeps a segment's window");
        ++owners->at(pool)[frame];
      }
    }
  }
  SKV_CHECK(standing == stood_on.size(), "a sequence stands on a segment that is gone");
}

}  // namespace swiftkv
