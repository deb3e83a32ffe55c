// SPDX-License-Identifier: Apache-2.0
// Cuts sequences of many rows into tiles of rows: arithmetic is what they cost.
#include <algorithm>
#include <limits>

#include "attention/row_cuts.h"

namespace swiftkv {
namespace {

constexpr int kChunkPages = 64;  // at least, where blocks are too few for the threads
constexpr int kMostChunks = 8;   // bounds the scratch of a tile

// Rows of a full tile: as many as give it a multiple of the vectors that matrix kernels take at
// once, 6 or 16, unless that wastes much.
int RowsPerBlock(int group) {
  constexpr int kUnit = 6;
  const int most = kMaxTileVectors / group;
  for (int rows = most; rows * 4 >= most * 3; --rows) {
    if (rows * group % kUnit == 0) return rows;
  }
  return most;
}

}  // namespace

VisiblePages PagesOf(const AttentionBatch& batch, const RowBlock& block) {
  const AttentionSequence& sequence = batch.sequences[static_cast<std::size_t>(block.sequence)];
  const std::int64_t first = sequence.first_position + block.first_row;
  const std::int64_t low = batch.shape.window > 0 ? first - batch.shape.window + 1
                                                  : std::numeric_limits<std::int64_t>::min() / 2;
  return {sequence.runs, block.kv_head, {low, first + block.num_rows - 1}};
}

void AppendBlocks(const AttentionBatch& batch, int sequence, std::vector<RowBlock>* blocks) {
  const int rows = batch.sequences[static_cast<std::size_t>(sequence)].num_rows;
  const int rows_per_block = RowsPerBlock(batch.shape.num_heads / batch.shape.num_kv_heads);
  for (int row = 0; row < rows; row += rows_per_block) {
    for (int head = 0; head < batch.shape.num_kv_heads; ++head) {
      blocks->push_back({sequence, head, row, std::min(rows_per_block, rows - row)});
    }
  }
}

void AddBlock(const AttentionBatch& batch, const RowBlock& block, bool whole, WorkTables* tables) {
  const AttentionSequence& sequence = batch.sequences[static_cast<std::size_t>(block.sequence)];
  const VisiblePages pages = PagesOf(batch, block);
  const int share = (CountPages(pages) + kMostChunks - 1) / kMostChunks;
  StretchList list;
  AppendStretches(pages, whole ? 0 : std::max(kChunkPages, share), &list);
  std::vector<SpanRange> chunks;
  for (int i = 0; i < static_cast<int>(list.stretches.size()); ++i) {
    chunks.push_back(tables->AddSpans(list, i, i + 1));
  }
  const int first_row = sequence.first_row + block.first_row;
  const int num_chunks = static_cast<int>(chunks.size());
  std::size_t partial = tables->AddResults({first_row, block.num_rows, block.kv_head, num_chunks});
  std::vector<TileRow> rows;
  for (int i = 0; i < block.num_rows; ++i) {
    rows.push_back({.position = sequence.first_position + block.first_row + i,
                    .first_partial = partial,
                    .batch_row = first_row + i,
                    .only_chunk = num_chunks <= 1});
    partial += static_cast<std::size_t>(num_chunks) * tables->group;
  }
  tables->AddTile(block.sequence, block.kv_head, rows, chunks);
}

}  // namespace swiftkv
