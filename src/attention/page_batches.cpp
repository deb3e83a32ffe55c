// SPDX-License-Identifier: Apache-2.0
// Resolves pages of runs to plane addresses and slots to positions.
#include "attention/page_batches.h"

#include <algorithm>
#include <limits>

namespace swiftkv {

PageBatch BatchAt(const PageRun& run, int kv_head, int page, int end_page) {
  PageBatch batch;
  const int pages = std::min(end_page - page, kBatchPages);
  batch.run = &run;
  batch.keys.pages = pages;
  batch.values.pages = pages;
  batch.keys.bytes = static_cast<int>(run.layout.value_offset - run.layout.key_offset);
  batch.values.bytes = static_cast<int>(run.layout.bytes - run.layout.value_offset);
  batch.first_slot = page * kPageTokens;
  batch.tokens = std::min(pages * kPageTokens, run.num_tokens - batch.first_slot);
  for (int i = 0; i < kBatchPages; ++i) {
    const std::byte* base = run.Page(page + std::min(i, pages - 1), kv_head);
    batch.keys.scales[i] = KeyPlane(run.format, run.layout, 0, base).scales;
    batch.values.scales[i] = ValuePlane(run.format, run.layout, 0, base).scales;
    batch.keys.now[i] = batch.keys.ahead[i] = base + run.layout.key_offset;
    batch.values.now[i] = batch.values.ahead[i] = base + run.layout.value_offset;
  }
  return batch;
}

void PrefetchAhead(const PageBatch& next, PageBatch* batch) {
  for (int i = 0; i < kBatchPages; ++i) {
    batch->keys.ahead[i] = next.keys.now[i];
    batch->values.ahead[i] = next.values.now[i];
  }
}

bool PageBatches::Next(PageBatch* batch) {
  if (span_ == spans_.size()) return false;
  const PageSpan& span = spans_[span_];
  const int page = span.first_page + page_;
  *batch = BatchAt(runs_[static_cast<std::size_t>(span.run)], kv_head_, page, span.end_page);
  page_ += batch->keys.pages;
  if (span.first_page + page_ == span.end_page) {
    ++span_;
    page_ = 0;
  }
  return true;
}

Visibility ResolveVisibility(const PageBatch& batch, const TileView& view,
                             std::int32_t (&positions)[kBatchTokens]) {
  constexpr std::int64_t kFarPast = std::numeric_limits<std::int64_t>::min() / 2;
  const PageRun& run = *batch.run;
  const bool full = batch.tokens == batch.keys.pages * kPageTokens;
  std::int64_t lowest = run.first_position + batch.first_slot;
  std::int64_t highest = lowest + batch.tokens - 1;
  if (run.positions != nullptr) {
    const bool ends_before = run.positions[run.num_tokens - 1] <= view.first_position;
    if (full && ends_before && view.window == 0) return Visibility::kAll;
    lowest = run.positions[batch.first_slot];
    highest = run.positions[batch.first_slot + batch.tokens - 1];
  }
  const std::int64_t window = view.window;
  const std::int64_t seen_by_first = window > 0 ? view.first_position - window + 1 : kFarPast;
  const std::int64_t seen_by_last = window > 0 ? view.last_position - window + 1 : kFarPast;
  if (lowest > view.last_position || highest < seen_by_first) return Visibility::kNone;
  if (full && highest <= view.first_position && lowest >= seen_by_last) return Visibility::kAll;
  for (int i = 0; i < kBatchTokens; ++i) {
    if (i >= batch.tokens) {
      positions[i] = std::numeric_limits<std::int32_t>::max();
    } else if (run.positions != nullptr) {
      positions[i] = run.positions[batch.first_slot + i];
    } else {
      positions[i] = static_cast<std::int32_t>(lowest + i);
    }
  }
  return Visibility::kSome;
}

}  // namespace swiftkv
