// SPDX-License-Identifier: Apache-2.0
// Sorts sequences into those of few and of many rows and has each kind cut.
#include "attention/work_plan.h"

#include <algorithm>
#include <vector>

#include "attention/kernels.h"
#include "attention/row_cuts.h"
#include "base/check.h"

namespace swiftkv {
namespace {

constexpr int kReaderVectors = 48;  // sequences of up to this many vectors are cut by their pages
constexpr int kPartialExtra = 16;   // floats beside the weighted sum, one line

static_assert(kMaxGroup <= kReaderVectors, "one row is always a reader");

}  // namespace

WorkPlan::WorkPlan(const AttentionBatch& batch)
    : head_dim_(batch.shape.head_dim),
      tables_(batch.shape.num_heads / batch.shape.num_kv_heads, batch.shape.head_dim) {
  SKV_CHECK(head_dim_ <= kMaxHeadDim && group() <= kMaxGroup, "callers ask Serves first");
  std::vector<int> readers;
  std::vector<RowBlock> blocks;
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    const int rows = batch.sequences[s].num_rows;
    if (rows == 0) continue;
    if (rows * group() <= kReaderVectors) {
      readers.push_back(static_cast<int>(s));
    } else {
      AppendBlocks(batch, static_cast<int>(s), &blocks);
    }
  }
  const std::size_t tiles =
      blocks.size() + readers.size() * static_cast<std::size_t>(batch.shape.num_kv_heads);
  for (const RowBlock& block : blocks) AddBlock(batch, block, tiles >= kEnoughItems, &tables_);
  AddReaders(batch, readers, &tables_);
  std::stable_sort(tables_.items.begin(), tables_.items.end(),
                   [](const WorkItem& a, const WorkItem& b) { return a.cost > b.cost; });
}

std::size_t WorkPlan::ItemOf(std::size_t round, const AttentionTeam& team) {
  const int place = round % 2 == 0 ? team.thread : team.num_threads - 1 - team.thread;
  return round * static_cast<std::size_t>(team.num_threads) + static_cast<std::size_t>(place);
}

std::span<const TileRow> WorkPlan::rows(const RowTile& tile) const {
  return {tables_.rows.data() + tile.first_row, tables_.rows.data() + tile.end_row};
}

std::span<const PageSpan> WorkPlan::spans(const WorkItem& item) const {
  return {tables_.spans.data() + item.first_span, tables_.spans.data() + item.end_span};
}

std::size_t WorkPlan::scratch_bytes() const {
  return tables_.num_partials * static_cast<std::size_t>(head_dim_ + kPartialExtra) * sizeof(float);
}

float* WorkPlan::partial(std::byte* scratch, std::size_t index) const {
  return reinterpret_cast<float*>(scratch) +
         index * static_cast<std::size_t>(head_dim_ + kPartialExtra);
}

}  // namespace swiftkv
