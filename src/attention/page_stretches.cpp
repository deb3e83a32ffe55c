// SPDX-License-Identifier: Apache-2.0
// Finds the visible pages of every run and cuts them at fixed places.
#include "attention/page_stretches.h"

#include <algorithm>

namespace swiftkv {
namespace {

struct PageRange {
  int first;
  int end;
};

// Returns the pages of a run that positions [low, high] may lie in; those of a run with gaps are
// looked at when they are read.
PageRange PagesWithin(const PageRun& run, const PositionRange& visible) {
  const int filled = (run.num_tokens + kPageTokens - 1) / kPageTokens;
  if (run.positions != nullptr) return {0, filled};
  if (visible.high < run.first_position) return {0, 0};
  const std::int64_t first =
      std::max<std::int64_t>(visible.low - run.first_position, 0) / kPageTokens;
  const std::int64_t end = (visible.high - run.first_position) / kPageTokens + 1;
  return {static_cast<int>(std::min<std::int64_t>(first, filled)),
          static_cast<int>(std::min<std::int64_t>(end, filled))};
}

// Calls use(index of the run, its visible pages) for the runs that hold pages of the kv head.
template <typename Use>
void ForEachRun(const VisiblePages& pages, const Use& use) {
  for (std::size_t r = 0; r < pages.runs.size(); ++r) {
    const PageRun& run = pages.runs[r];
    if (pages.kv_head < run.first_head || run.end_head <= pages.kv_head) continue;
    const PageRange range = PagesWithin(run, pages.visible);
    if (range.first < range.end) use(static_cast<int>(r), range);
  }
}

}  // namespace

void AppendStretches(const VisiblePages& pages, int stretch_pages, StretchList* list) {
  const std::size_t first = list->stretches.size();
  ForEachRun(pages, [&](int r, const PageRange& range) {
    const PageRun& run = pages.runs[static_cast<std::size_t>(r)];
    const std::int64_t run_page = run.first_position / kPageTokens;
    const bool dense = run.positions == nullptr;
    for (int page = range.first; page < range.end;) {
      int end = range.end;
      StretchKey key{0, 0, 0};
      if (stretch_pages > 0) {
        const std::int64_t number = dense ? run_page + page : page;
        end = std::min(end, page + stretch_pages - static_cast<int>(number % stretch_pages));
        key.index = number / stretch_pages;
        key.run = dense ? -1 : r;
        key.place = dense ? key.index : run_page / stretch_pages;
      }
      if (list->stretches.size() == first || list->stretches.back().key != key) {
        const int span = static_cast<int>(list->spans.size());
        list->stretches.push_back({key, span, span, 0, 0});
      }
      list->spans.push_back({r, page, end});
      PageStretch& stretch = list->stretches.back();
      ++stretch.end_span;
      stretch.pages += end - page;
      stretch.bytes += static_cast<std::size_t>(end - page) * run.layout.bytes;
      page = end;
    }
  });
}

int CountPages(const VisiblePages& pages) {
  int count = 0;
  ForEachRun(pages, [&](int, const PageRange& range) { count += range.end - range.first; });
  return count;
}

}  // namespace swiftkv
