// SPDX-License-Identifier: Apache-2.0
// Cuts a batch of attention into work items for the cpu backend.
//
// A tile is a set of rows with all query heads of one kv head, so that a K/V byte read for one of
// them serves all. An item is a tile and a chunk of pages. Sequences of few rows read much and
// compute little: their pages are cut into chunks at fixed absolute positions, for threads to
// share, and rows of several sequences that hold the same pages form one tile there (a cascade).
// Each chunk leaves a partial result (maximum, sum of weights, weighted sum) per query vector;
// Merge combines those of a row in the order of its chunks, whichever tiles computed them.
// Sequences of many rows give tiles enough to go round and stay uncut. The rules look at extents
// and bytes of pages and at where these lie, never at the number of threads; items are ordered by
// falling cost, so that dealing them out in turns balances any number of threads.
#pragma once

#include <cstddef>
#include <span>

#include "attention/work_tables.h"
#include "swiftkv/attention.h"

namespace swiftkv {

class WorkPlan final : public AttentionPlan {
 public:
  explicit WorkPlan(const AttentionBatch& batch);

  std::size_t scratch_bytes() const override;
  bool needs_merge() const override { return !tables_.merged_rows.empty(); }

  std::span<const WorkItem> items() const { return tables_.items; }  // falling in cost
  std::span<const RowTile> tiles() const { return tables_.tiles; }
  std::span<const MergedRow> merged_rows() const { return tables_.merged_rows; }
  const RowTile& tile(const WorkItem& item) const {
    return tables_.tiles[static_cast<std::size_t>(item.tile)];
  }
  std::span<const TileRow> rows(const RowTile& tile) const;
  std::span<const PageSpan> spans(const WorkItem& item) const;

  // Returns the number of the item that a thread of a team takes in its round: forth in even rounds
  // and back in odd ones, so that no thread always gets the larger ones. May be past the end.
  static std::size_t ItemOf(std::size_t round, const AttentionTeam& team);

  int group() const { return tables_.group; }  // query heads of a kv head
  int vectors(const RowTile& tile) const { return (tile.end_row - tile.first_row) * group(); }

  // A partial result of one query vector: [head_dim] weighted sum, maximum, sum of weights, and 1
  // where the weighted sum is of rotated values, else 0.
  float* partial(std::byte* scratch, std::size_t index) const;

 private:
  int head_dim_;
  WorkTables tables_;
};

}  // namespace swiftkv
