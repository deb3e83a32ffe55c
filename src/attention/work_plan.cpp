// SPDX-License-Identifier: Apache-2.0
// Cuts rows into tiles and their pages into chunks (see the header for the rules).
#include "attention/work_plan.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "attention/kernels.h"
#include "base/check.h"

namespace swiftkv {
namespace {

constexpr int kChunkPages = 32;    // 512 tokens
constexpr int kMinChunkPages = 8;  // shorter ones cost more to merge than they give
constexpr int kManyRowsChunkPages = 64;
constexpr int kMostManyRowsChunks = 8;  // bounds the scratch of a tile
constexpr int kEnoughItems = 12;        // evens out what up to 4 threads get
constexpr int kTileVectors = 96;
constexpr int kTileRowsUnit = 6;   // what the matrix kernels take at once
constexpr int kPartialExtra = 16;  // floats beside the weighted sum, one line

// A page's chunk: absolute for dense runs, so that it does not depend on where runs are cut, and
// within the run where positions have gaps.
struct ChunkKey {
  int run;
  std::int64_t index;

  friend bool operator==(const ChunkKey&, const ChunkKey&) = default;
};

struct PageRange {
  int first;
  int end;
};

std::int64_t PageNumber(const PageRun& run, int page) {
  return run.positions == nullptr ? run.first_position / kPageTokens + page : page;
}

// Returns the pages that positions [low, high] may lie in.
PageRange VisiblePages(const PageRun& run, std::int64_t low, std::int64_t high) {
  const int filled = (run.num_tokens + kPageTokens - 1) / kPageTokens;
  if (run.positions != nullptr) return {0, filled};
  if (high < run.first_position) return {0, 0};
  const std::int64_t first = std::max<std::int64_t>(low - run.first_position, 0) / kPageTokens;
  const std::int64_t end = (high - run.first_position) / kPageTokens + 1;
  return {static_cast<int>(std::min<std::int64_t>(first, filled)),
          static_cast<int>(std::min<std::int64_t>(end, filled))};
}

// The positions that some row of the tile may see.
struct PositionRange {
  std::int64_t low;
  std::int64_t high;
};

PositionRange VisiblePositions(const AttentionBatch& batch, const RowTile& tile) {
  const AttentionSequence& sequence = batch.sequences[static_cast<std::size_t>(tile.sequence)];
  const std::int64_t first = sequence.first_position + tile.first_row;
  const std::int64_t low = batch.shape.window > 0 ? first - batch.shape.window + 1
                                                  : std::numeric_limits<std::int64_t>::min() / 2;
  return {low, first + tile.num_rows - 1};
}

bool Covers(const PageRun& run, int kv_head) {
  return run.first_head <= kv_head && kv_head < run.end_head;
}

int CountVisiblePages(const AttentionBatch& batch, const RowTile& tile) {
  const PositionRange visible = VisiblePositions(batch, tile);
  int pages = 0;
  for (const PageRun& run : batch.sequences[static_cast<std::size_t>(tile.sequence)].runs) {
    if (!Covers(run, tile.kv_head)) continue;
    const PageRange range = VisiblePages(run, visible.low, visible.high);
    pages += std::max(range.end - range.first, 0);
  }
  return pages;
}

// Rows of a full tile: a multiple of what the matrix kernels take at once, about kTileVectors
// vectors.
int RowsPerTile(int group) {
  constexpr int kUnits = kTileVectors / kTileRowsUnit;
  if (group > kUnits) return kTileVectors / group;
  return kTileRowsUnit * ((kUnits + group / 2) / group);
}

}  // namespace

WorkPlan::WorkPlan(const AttentionBatch& batch)
    : head_dim_(batch.shape.head_dim), group_(batch.shape.num_heads / batch.shape.num_kv_heads) {
  SKV_CHECK(head_dim_ <= kMaxHeadDim && group_ <= kMaxGroup, "callers ask Serves first");
  AddTiles(batch);

  std::vector<int> pages;
  pages.reserve(tiles_.size());
  for (const RowTile& tile : tiles_) pages.push_back(CountVisiblePages(batch, tile));
  int chunk_pages = kChunkPages;
  for (; chunk_pages > kMinChunkPages; chunk_pages /= 2) {
    std::int64_t items = 0;
    for (const int count : pages) items += (count + chunk_pages - 1) / chunk_pages;
    if (items >= kEnoughItems) break;
  }
  for (std::size_t i = 0; i < tiles_.size(); ++i) {
    int tile_chunk = chunk_pages;
    if (vectors(tiles_[i]) > kMaxFewVectors) {
      tile_chunk =
          std::max(kManyRowsChunkPages, (pages[i] + kMostManyRowsChunks - 1) / kMostManyRowsChunks);
      if (tiles_.size() >= kEnoughItems) tile_chunk = 0;
    }
    AddItems(batch, static_cast<int>(i), tile_chunk);
  }
  std::stable_sort(items_.begin(), items_.end(),
                   [](const WorkItem& a, const WorkItem& b) { return a.cost > b.cost; });
}

void WorkPlan::AddTiles(const AttentionBatch& batch) {
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    const int rows = batch.sequences[s].num_rows;
    const int rows_per_tile = rows * group_ <= kMaxFewVectors ? rows : RowsPerTile(group_);
    for (int row = 0; row < rows; row += rows_per_tile) {
      for (int head = 0; head < batch.shape.num_kv_heads; ++head) {
        tiles_.push_back({.sequence = static_cast<int>(s),
                          .kv_head = head,
                          .first_row = row,
                          .num_rows = std::min(rows_per_tile, rows - row),
                          .num_chunks = 0,
                          .first_partial = 0});
      }
    }
  }
}

void WorkPlan::AddItems(const AttentionBatch& batch, int tile_index, int chunk_pages) {
  RowTile& tile = tiles_[static_cast<std::size_t>(tile_index)];
  const PositionRange visible = VisiblePositions(batch, tile);
  const std::span<const PageRun> runs =
      batch.sequences[static_cast<std::size_t>(tile.sequence)].runs;
  const double page_cost = std::max(vectors(tile), 8);  // fewer vectors wait for memory
  const auto open_item = [&] {
    const int span = static_cast<int>(spans_.size());
    items_.push_back({tile_index, tile.num_chunks++, span, span, page_cost});
  };
  ChunkKey current{-2, 0};
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const PageRun& run = runs[r];
    if (!Covers(run, tile.kv_head)) continue;
    const PageRange range = VisiblePages(run, visible.low, visible.high);
    for (int page = range.first; page < range.end;) {
      int end = range.end;
      ChunkKey key{-1, 0};
      if (chunk_pages > 0) {
        const std::int64_t number = PageNumber(run, page);
        key = {run.positions == nullptr ? -1 : static_cast<int>(r), number / chunk_pages};
        end = std::min(end, page + chunk_pages - static_cast<int>(number % chunk_pages));
      }
      if (key != current) open_item();
      current = key;
      spans_.push_back({static_cast<int>(r), page, end});
      ++items_.back().end_span;
      items_.back().cost += page_cost * (end - page);
      page = end;
    }
  }
  if (tile.num_chunks == 0) open_item();  // nothing to see: still writes its zeros
  if (tile.num_chunks > 1) {
    tile.first_partial = num_partials_;
    num_partials_ += static_cast<std::size_t>(tile.num_chunks) * vectors(tile);
  }
}

std::span<const PageSpan> WorkPlan::spans(const WorkItem& item) const {
  return {spans_.data() + item.first_span, spans_.data() + item.end_span};
}

std::size_t WorkPlan::scratch_bytes() const {
  return num_partials_ * static_cast<std::size_t>(head_dim_ + kPartialExtra) * sizeof(float);
}

float* WorkPlan::partial(std::byte* scratch, const RowTile& tile, int chunk, int vector) const {
  const std::size_t index =
      tile.first_partial + static_cast<std::size_t>(chunk) * vectors(tile) + vector;
  return reinterpret_cast<float*>(scratch) +
         index * static_cast<std::size_t>(head_dim_ + kPartialExtra);
}

}  // namespace swiftkv
