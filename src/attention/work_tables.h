// SPDX-License-Identifier: Apache-2.0
// Holds the tables of a work plan while they are filled and when they are read: tiles, their rows,
// items, the spans of pages that items read, and the rows whose partial results are merged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/kernels.h"
#include "attention/page_stretches.h"

namespace swiftkv {

inline constexpr int kMaxGroup = 48;       // query heads of a kv head
inline constexpr int kMaxFewVectors = 20;  // tiles up to this read pages in their stored format

// A row as part of a tile.
struct TileRow {
  std::int64_t position;
  std::size_t first_partial;  // of the tile's first chunk: the heads of the group side by side,
                              // then those of the next chunk; unused with only one chunk
  int batch_row;              // of q and out
  bool only_chunk;            // the row sees the pages of one item: its result is final
};

struct RowTile {
  int sequence;  // whose runs the items' spans are in: all rows see the same pages there
  int kv_head;
  int first_row;  // rows [first_row, end_row) of the table
  int end_row;
};

struct WorkItem {
  int tile;
  int chunk;  // of the tile
  int first_span;
  int end_span;
  double cost;
};

// A row with several partial results for a kv head: num_chunks times the heads of the group.
struct MergedRow {
  int batch_row;
  int kv_head;
  int num_chunks;
  std::size_t first_partial;
};

// How much is read.
struct PageAmount {
  int pages = 0;
  std::size_t bytes = 0;
};

// One chunk of pages, in spans of the table.
struct SpanRange {
  int first;
  int end;
  PageAmount amount;
};

// Consecutive rows of the batch, one kv head, and how many chunks they see.
struct RowResults {
  int batch_row;
  int num_rows;
  int kv_head;
  int num_chunks;
};

struct WorkTables {
  WorkTables(int heads_per_kv_head, int channels) : group(heads_per_kv_head), head_dim(channels) {}

  // Cost of an item of `vectors` query vectors, in vectors x pages x channels. Few vectors wait for
  // bytes, many for arithmetic.
  double ItemCost(int vectors, const PageAmount& amount) const;

  // Copies the spans of stretches [first, end) of a list, joined where one continues another.
  SpanRange AddSpans(const StretchList& list, int first, int end);

  // Numbers partial results, row by row and in a row chunk by chunk, and returns the first. Rows of
  // one chunk have none.
  std::size_t AddResults(const RowResults& results);

  // Adds a tile and an item for each chunk; without chunks one item, which writes zeros.
  void AddTile(int sequence, int kv_head, std::span<const TileRow> tile_rows,
               std::span<const SpanRange> chunks);

  int group;  // query heads of a kv head
  int head_dim;
  std::size_t num_partials = 0;  // results of one query vector
  std::vector<RowTile> tiles;
  std::vector<TileRow> rows;
  std::vector<PageSpan> spans;
  std::vector<WorkItem> items;
  std::vector<MergedRow> merged_rows;
};

}  // namespace swiftkv
