// SPDX-License-Identifier: Apache-2.0
// Divides what is kept of a context among kv heads.
#include "tools/bench_segments.h"

#include <algorithm>
#include <cmath>

#include "tools/bench_pages.h"

namespace swiftkv {
namespace {

constexpr int kTailPages = 8;        // the newest 128 tokens
constexpr double kMostSpread = 0.5;  // of the mean, up and down

}  // namespace

int SegmentPages::total() const {
  int pages = tail_pages * static_cast<int>(kept.size());
  for (const int each : kept) pages += each;
  return pages;
}

SegmentPages SegmentPagesOf(const BenchPagesSpec& spec) {
  const int pages = (spec.context + kPageTokens - 1) / kPageTokens;
  SegmentPages result;
  result.tail_pages = std::min(kTailPages, pages);
  result.end_page = pages - result.tail_pages;
  const int heads = spec.shape.num_kv_heads;
  const double mean = std::max(0.0, pages * (1 - spec.removed) - result.tail_pages);
  const double spread =
      mean > 0 ? std::min(kMostSpread, (result.end_page - mean) / mean) : 0;  // none keeps more
  int kept = 0;
  for (int head = 0; head < heads; ++head) {
    const double place = heads > 1 ? 2.0 * head / (heads - 1) - 1 : 0;  // in [-1, 1]
    // The last one takes what rounding left.
    const int share = head + 1 == heads
                          ? static_cast<int>(std::lround(mean * heads)) - kept
                          : static_cast<int>(std::lround(mean * (1 + spread * place)));
    result.kept.push_back(std::clamp(share, 0, result.end_page));
    kept += result.kept.back();
  }
  return result;
}

int KeptPages(const SegmentPages& pages, int layer, int head) {
  return pages.kept[static_cast<std::size_t>(head + layer) % pages.kept.size()];
}

}  // namespace swiftkv
