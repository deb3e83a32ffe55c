// SPDX-License-Identifier: Apache-2.0
// Appends tiles, items and partial results to the tables of a plan.
#include "attention/work_tables.h"

#include <algorithm>

#include "base/check.h"

namespace swiftkv {

double WorkTables::ItemCost(int vectors, const PageAmount& amount) const {
  // Reading eight bytes takes as long as multiplying a channel of 16 slots by a vector's: pages of
  // 16-bit formats keep eight vectors waiting.
  constexpr double kBytes = 8;
  constexpr double kWait = 8;
  const double reading = static_cast<double>(amount.bytes) / kBytes;
  const double computing = static_cast<double>(vectors) * amount.pages * head_dim;
  return std::max(reading, computing) + std::max<double>(vectors, kWait) * head_dim;
}

SpanRange WorkTables::AddSpans(const StretchList& list, int first, int end) {
  SpanRange range{static_cast<int>(spans.size()), 0, {}};
  for (int i = first; i < end; ++i) {
    const PageStretch& stretch = list.stretches[static_cast<std::size_t>(i)];
    range.amount.pages += stretch.pages;
    range.amount.bytes += stretch.bytes;
    for (int s = stretch.first_span; s < stretch.end_span; ++s) {
      const PageSpan& span = list.spans[static_cast<std::size_t>(s)];
      const bool continues = static_cast<int>(spans.size()) > range.first &&
                             spans.back().run == span.run &&
                             spans.back().end_page == span.first_page;
      if (continues) {
        spans.back().end_page = span.end_page;
      } else {
        spans.push_back(span);
      }
    }
  }
  range.end = static_cast<int>(spans.size());
  return range;
}

std::size_t WorkTables::AddResults(const RowResults& results) {
  const std::size_t first = num_partials;
  if (results.num_chunks <= 1) return first;
  for (int i = 0; i < results.num_rows; ++i) {
    merged_rows.push_back(
        {results.batch_row + i, results.kv_head, results.num_chunks, num_partials});
    num_partials += static_cast<std::size_t>(results.num_chunks) * group;
  }
  return first;
}

void WorkTables::AddTile(int sequence, int kv_head, std::span<const TileRow> tile_rows,
                         std::span<const SpanRange> chunks) {
  const int tile = static_cast<int>(tiles.size());
  const int first_row = static_cast<int>(rows.size());
  const int vectors = static_cast<int>(tile_rows.size()) * group;
  SKV_CHECK(vectors <= kMaxTileVectors);
  rows.insert(rows.end(), tile_rows.begin(), tile_rows.end());
  tiles.push_back({sequence, kv_head, first_row, static_cast<int>(rows.size())});
  int chunk = 0;
  for (const SpanRange& range : chunks) {
    items.push_back({tile, chunk++, range.first, range.end, ItemCost(vectors, range.amount)});
  }
  if (chunks.empty()) items.push_back({tile, 0, 0, 0, ItemCost(vectors, {})});
}

}  // namespace swiftkv
