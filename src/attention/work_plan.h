// SPDX-License-Identifier: Apache-2.0
// Cuts a batch of attention into work items for the cpu backend.
//
// A tile is a set of rows of one sequence with all query heads of one kv head, so that a K/V byte
// read for one of them serves all. An item is a tile and a chunk of the pages that it may see. Few
// rows read much and compute little: their pages are cut into chunks at fixed absolute positions,
// for threads to share, and each chunk leaves a partial result (maximum, sum of weights, weighted
// sum) that Merge combines in the order of chunks. Many rows give tiles enough to go round and stay
// uncut. The rules look at extents only, never at the number of threads; items are ordered by
// falling cost, so that taking every n-th one balances n threads.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "swiftkv/attention.h"

namespace swiftkv {

inline constexpr int kMaxTileVectors = 108;  // query vectors (rows x heads of the group) in a tile
inline constexpr int kMaxGroup = 48;         // query heads of a kv head
inline constexpr int kMaxFewVectors = 20;    // tiles up to this read pages in their stored format

struct PageSpan {
  int run;  // of the sequence
  int first_page;
  int end_page;
};

struct RowTile {
  int sequence;
  int kv_head;
  int first_row;  // within the sequence
  int num_rows;
  int num_chunks;
  std::size_t first_partial;  // of num_chunks x vectors partial results; unused with one chunk
};

struct WorkItem {
  int tile;
  int chunk;  // [0, num_chunks) of the tile
  int first_span;
  int end_span;
  double cost;
};

class WorkPlan final : public AttentionPlan {
 public:
  explicit WorkPlan(const AttentionBatch& batch);

  std::size_t scratch_bytes() const override;
  bool needs_merge() const override { return num_partials_ > 0; }

  std::span<const WorkItem> items() const { return items_; }
  std::span<const RowTile> tiles() const { return tiles_; }
  const RowTile& tile(const WorkItem& item) const {
    return tiles_[static_cast<std::size_t>(item.tile)];
  }
  std::span<const PageSpan> spans(const WorkItem& item) const;

  int group() const { return group_; }
  int vectors(const RowTile& tile) const { return tile.num_rows * group_; }

  // The partial result of one query vector: [head_dim] weighted sum, maximum, sum of weights.
  float* partial(std::byte* scratch, const RowTile& tile, int chunk, int vector) const;

 private:
  void AddTiles(const AttentionBatch& batch);
  // Appends the tile's items; `chunk_pages` 0 leaves the tile uncut.
  void AddItems(const AttentionBatch& batch, int tile_index, int chunk_pages);

  int head_dim_;
  int group_;
  std::size_t num_partials_ = 0;
  std::vector<RowTile> tiles_;
  std::vector<PageSpan> spans_;
  std::vector<WorkItem> items_;
};

}  // namespace swiftkv
