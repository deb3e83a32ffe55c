// SPDX-License-Identifier: Apache-2.0
// Runs a compaction on forecasts of the arenas that it concerns.
#include <algorithm>
#include <map>

#include "cache/compaction.h"
#include "cache/mapped_range.h"

namespace swiftkv {
namespace {

// All arenas that a compaction concerns.
class Forecasts {
 public:
  ArenaForecast& Of(const FramePool* pool) {
    return forecasts_.try_emplace(pool, &pool->arena()).first->second;
  }

  std::int64_t MappedBytes() const {
    std::int64_t pages = 0;
    for (const auto& [pool, forecast] : forecasts_) pages += forecast.mapped_pages();
    return pages * static_cast<std::int64_t>(OsPageBytes());
  }

  // What lies in frames, more or less than now.
  std::int64_t FrameBytes() const {
    std::int64_t bytes = 0;
    for (const auto& [pool, forecast] : forecasts_) {
      bytes += forecast.live_frames() * static_cast<std::int64_t>(pool->arena().frame_bytes());
    }
    return bytes;
  }

  // What the pools' bookkeeping grows by, at the most.
  std::int64_t MetadataBytes() const {
    std::uint64_t pages = 0;
    for (const auto& [pool, forecast] : forecasts_) {
      const auto before = BookkeepingPages(pool->arena(), pool->arena().end_of_live());
      pages += BookkeepingPages(pool->arena(), forecast.highest_end()) - before;
    }
    return static_cast<std::int64_t>(pages * OsPageBytes());
  }

 private:
  // Bits of used frames, counts of frames on OS pages, reference counts.
  static std::uint64_t BookkeepingPages(const Arena& arena, std::uint32_t end) {
    if (end == 0) return 0;
    constexpr std::size_t kBitsPerWord = 64;
    const std::size_t words = (end + kBitsPerWord - 1) / kBitsPerWord;
    return OsPages(words * sizeof(std::uint64_t)) +
           OsPages(arena.PagesOf(end - 1).end * sizeof(std::uint16_t)) +
           OsPages(end * sizeof(std::uint32_t));
  }

  std::map<const FramePool*, ArenaForecast> forecasts_;
};

void CopyWindows(const CompactionSource& source, std::int64_t end, Forecasts* forecasts) {
  const Sequence& sequence = *source.sequence;
  for (std::size_t group = 0; group < sequence.tables.size(); ++group) {
    const WindowBlocks blocks = WindowsAt(*source.geometry, group, end);
    for (std::int64_t block = blocks.first; block < blocks.end; ++block) {
      forecasts->Of(&sequence.pool(group, block)).Allocate();
    }
  }
}

// Lets go of what held the positions of one block.
void FreeBlock(const CompactionSource& source, std::int64_t block, Forecasts* forecasts) {
  const Sequence& sequence = *source.sequence;
  for (std::size_t group = 0; group < sequence.tables.size(); ++group) {
    if (source.geometry->window(group) != 0) continue;
    const FramePool& pool = sequence.pool(group, block);
    const std::uint32_t frame = sequence.tables[group].frame(block);
    if (!pool.IsWritable(frame)) continue;
    const FramePool::Twin twin = pool.OwnTwin(frame);
    if (twin.pool != nullptr) forecasts->Of(twin.pool).Free(twin.frame);
    forecasts->Of(&pool).Free(frame);
  }
}

}  // namespace

WindowBlocks WindowsAt(const CacheGeometry& geometry, std::size_t group, std::int64_t end) {
  const int window = geometry.window(group);
  if (window == 0) return {};
  return {OldestVisibleBlock(end, window), end / kPageTokens};
}

std::uint32_t PagesBelow(const CompressedSegment& segment, const SegmentRun& run,
                         std::uint32_t first, std::int64_t end) {
  const auto positions = segment.PositionsOf(run);
  std::uint32_t page = first;
  while (page < run.num_pages() &&
         positions[std::min((page + 1) * kPageTokens, run.num_tokens) - 1] < end) {
    ++page;
  }
  return page;
}

MemoryForecast ForecastCompaction(const CompactionSource& source,
                                  const CompressedSegment& segment) {
  Forecasts forecasts;
  if (segment.findable) CopyWindows(source, segment.end, &forecasts);
  std::vector<std::uint32_t> copied(segment.runs.size());
  std::vector<std::uint32_t> old_freed(source.old() == nullptr ? 0 : source.old()->runs.size());
  std::int64_t peak = forecasts.MappedBytes();
  for (std::int64_t block = 0; block < segment.end / kPageTokens; ++block) {
    const std::int64_t limit = (block + 1) * kPageTokens;
    for (std::size_t i = 0; i < segment.runs.size(); ++i) {
      const SegmentRun& run = segment.runs[i];
      const auto positions = segment.PositionsOf(run);
      while (copied[i] < run.num_tokens && positions[copied[i]] < limit) {
        if (copied[i]++ % kPageTokens == 0) forecasts.Of(run.pool).Allocate();
      }
    }
    peak = std::max(peak, forecasts.MappedBytes());
    if (limit > source.old_end()) {
      FreeBlock(source, block, &forecasts);
      continue;
    }
    for (std::size_t i = 0; i < old_freed.size() && source.frees_old; ++i) {
      const SegmentRun& run = source.old()->runs[i];
      const std::uint32_t end = PagesBelow(*source.old(), run, old_freed[i], limit);
      for (; old_freed[i] < end; ++old_freed[i]) {
        forecasts.Of(run.pool).Free(source.old()->FramesOf(run)[old_freed[i]]);
      }
    }
  }
  const std::int64_t metadata = forecasts.MetadataBytes();
  return {peak + metadata, forecasts.MappedBytes() + metadata, forecasts.FrameBytes() + metadata};
}

}  // namespace swiftkv
