// SPDX-License-Identifier: Apache-2.0
// Walks spans of pages in batches of up to four, as the kernels take them.
//
// A batch never leaves its run, so that it has one pair of formats, and all its pages but the last
// are full. Views only: a batch is valid as long as the runs are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "attention/kernels.h"
#include "attention/page_stretches.h"
#include "swiftkv/page_view.h"

namespace swiftkv {

struct PageBatch {
  const PageRun* run;
  BatchPlanes keys;
  BatchPlanes values;
  int first_slot;  // of the run
  int tokens;      // [1, 64] valid slots

  int key_format() const { return static_cast<int>(run->format.key->info().id); }
  int value_format() const { return static_cast<int>(run->format.value->info().id); }
};

// Returns the batch that starts at `page` of a run and ends before `end_page`; nothing is ahead
// of it but itself.
PageBatch BatchAt(const PageRun& run, int kv_head, int page, int end_page);

// Has the kernels prefetch `next` while they work on `batch`.
void PrefetchAhead(const PageBatch& next, PageBatch* batch);

class PageBatches {
 public:
  PageBatches(std::span<const PageRun> runs, std::span<const PageSpan> spans, int kv_head)
      : runs_(runs), spans_(spans), kv_head_(kv_head) {}

  // Returns false at the end.
  bool Next(PageBatch* batch);

 private:
  std::span<const PageRun> runs_;
  std::span<const PageSpan> spans_;
  int kv_head_;
  std::size_t span_ = 0;
  int page_ = 0;  // of the span
};

// Which slots of a batch the rows of a tile see.
enum class Visibility : std::uint8_t { kAll, kSome, kNone };

// The interval of positions that the rows of a tile lie in.
struct TileView {
  std::int64_t first_position;
  std::int64_t last_position;
  int window;  // 0: none
};

// Fills `positions` (INT32_MAX for a slot that is not valid) unless all rows see all 16-token
// pages of the batch whole. Of a run with gaps that ends before the rows, full pages are seen whole
// without a look at their positions.
Visibility ResolveVisibility(const PageBatch& batch, const TileView& view,
                             std::int32_t (&positions)[kBatchTokens]);

}  // namespace swiftkv
