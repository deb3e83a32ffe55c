// SPDX-License-Identifier: Apache-2.0
// Cuts the pages that rows of a sequence may see into stretches.
//
// Stretches end at fixed places, which do not depend on where runs begin or end: in dense runs at
// multiples of their length by absolute position, in runs whose positions have gaps by the number
// of the page within the run. Thus two sequences that hold the same pages are cut alike.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "swiftkv/page_view.h"

namespace swiftkv {

struct PageSpan {
  int run;  // of the sequence
  int first_page;
  int end_page;
};

// The positions that some of a sequence's rows may see, both ends included.
struct PositionRange {
  std::int64_t low;
  std::int64_t high;
};

// Which stretch of the tokens it is. Sequences that hold the same pages give these the same keys,
// so that they can be walked side by side; keys of a sequence rise, but for runs that overlap.
struct StretchKey {
  std::int64_t place;  // where it begins, in stretches from position 0
  int run;             // -1 in dense runs, else the run, because its stretches end with it
  std::int64_t index;  // dense: `place`, else among the run's stretches

  // NOLINTNEXTLINE(modernize-use-nullptr): the check trips over the comparison it stands for
  friend auto operator<=>(const StretchKey&, const StretchKey&) = default;
};

struct PageStretch {
  StretchKey key;
  int first_span;  // of StretchList::spans
  int end_span;
  int pages;
  std::size_t bytes;  // of the pages, for one kv head
};

struct StretchList {
  std::vector<PageStretch> stretches;
  std::vector<PageSpan> spans;
};

// What is cut: the pages of kv head `kv_head` that lie in `visible`.
struct VisiblePages {
  std::span<const PageRun> runs;
  int kv_head;
  PositionRange visible;
};

// Appends the stretches of `pages`, oldest first; `stretch_pages` 0 makes one of them all. There is
// none where no page is visible.
void AppendStretches(const VisiblePages& pages, int stretch_pages, StretchList* list);

int CountPages(const VisiblePages& pages);

}  // namespace swiftkv
