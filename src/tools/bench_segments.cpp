// SPDX-License-Identifier: Apache-2.0
// Divides what is kept of a context among kv heads.
#include "tools/bench_segments.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>

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

std::vector<std::uint32_t> PlaceSegmentPages(const BenchPagesSpec& spec, const SegmentPages& pages,
                                             std::uint32_t first) {
  struct Place {
    double filled;      // when, in [0, 1)
    std::size_t index;  // of the result
  };
  const int heads = spec.shape.num_kv_heads;
  const auto kept =
      static_cast<std::size_t>(std::accumulate(pages.kept.begin(), pages.kept.end(), 0));
  std::vector<Place> order;
  for (int turn = 0; turn < spec.turns; ++turn) {
    for (int s = 0; s < spec.batch; ++s) {
      for (int layer = 0; layer < spec.layers; ++layer) {
        const int call = turn * spec.layers + layer;
        std::size_t index = static_cast<std::size_t>(call * spec.batch + s) * kept;
        for (int head = 0; head < heads; ++head) {
          const int count = KeptPages(pages, layer, head);
          for (int page = 0; page < count; ++page) {
            // Segments are made one after the other.
            order.push_back({turn * spec.batch + s + static_cast<double>(page) / count, index++});
          }
        }
      }
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Place& a, const Place& b) { return a.filled < b.filled; });
  const auto stretch = static_cast<std::size_t>(spec.layers * heads);
  std::vector<std::size_t> stretches(order.size() / stretch);
  std::iota(stretches.begin(), stretches.end(), std::size_t{0});
  std::mt19937 random{3};
  if (spec.shuffled) std::shuffle(stretches.begin(), stretches.end(), random);
  std::vector<std::uint32_t> frames(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    // What is left over stays behind the others.
    const std::size_t of = i / stretch;
    const std::size_t place = (of < stretches.size() ? stretches[of] : of) * stretch + i % stretch;
    frames[order[i].index] = first + static_cast<std::uint32_t>(place);
  }
  return frames;
}

std::vector<std::int32_t> SpreadPositions(const SegmentPages& pages) {
  const auto end = static_cast<std::size_t>(pages.end_page) * kPageTokens;
  std::vector<std::int32_t> positions(pages.kept.size() * end);
  for (std::size_t head = 0; head < pages.kept.size(); ++head) {
    const auto kept = static_cast<std::size_t>(pages.kept[head]) * kPageTokens;
    for (std::size_t i = 0; i < kept; ++i) {
      positions[head * end + i] = static_cast<std::int32_t>(i * end / kept);
    }
  }
  return positions;
}

int KeptPages(const SegmentPages& pages, int layer, int head) {
  return pages.kept[static_cast<std::size_t>(head + layer) % pages.kept.size()];
}

}  // namespace swiftkv
