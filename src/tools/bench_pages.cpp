// SPDX-License-Identifier: Apache-2.0
// Implements the pages of a bench.
#include "tools/bench_pages.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "base/check.h"
#include "base/status_macros.h"
#include "tools/bench_segments.h"

namespace swiftkv {
namespace {

constexpr int kDistinctPages = 8;

int PagesOf(int tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

int SharedPages(const BenchPagesSpec& spec) { return spec.shared_tokens / kPageTokens; }

int PrivatePages(const BenchPagesSpec& spec) { return PagesOf(spec.context) - SharedPages(spec); }

int FramesOfTurn(const BenchPagesSpec& spec) {
  return SharedPages(spec) + spec.batch * PrivatePages(spec);
}

std::size_t FrameBytes(const BenchPagesSpec& spec, std::size_t page_bytes) {
  return page_bytes * static_cast<std::size_t>(spec.layers * spec.shape.num_kv_heads);
}

// What sequences on segments read: a frame for each page.
void CountSegments(const BenchPagesSpec& spec, BenchWork* work) {
  const SegmentPages segment = SegmentPagesOf(spec);
  const std::uint64_t sequences = static_cast<std::uint64_t>(work->calls) * spec.batch;
  work->pages = sequences * segment.total();
  work->frames = work->visits = work->pages;
  double slots =
      spec.shape.num_kv_heads * static_cast<double>(spec.context - segment.end_page * kPageTokens);
  for (const int kept : segment.kept) slots += static_cast<double>(kept) * kPageTokens;
  const int gqa = spec.shape.num_heads / spec.shape.num_kv_heads;
  work->flops =
      4.0 * slots * spec.queries * gqa * spec.shape.head_dim * static_cast<double>(sequences);
}

std::vector<float> NormalValues(std::size_t count) {
  std::mt19937 random{1};
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

void EncodePages(const BenchPagesSpec& spec, const PageLayout& layout, std::byte* pages) {
  const int dim = spec.shape.head_dim;
  const auto stride = static_cast<std::size_t>(dim);
  const std::size_t plane = kPageTokens * stride;
  const std::vector<float> rows = NormalValues(2 * kDistinctPages * plane);
  for (int i = 0; i < kDistinctPages; ++i) {
    std::byte* const page = pages + static_cast<std::size_t>(i) * layout.bytes;
    const float* const keys = rows.data() + static_cast<std::size_t>(2 * i) * plane;
    spec.format.key->Encode(MutableKeyPlane(spec.format, layout, dim, page), {0, kPageTokens}, keys,
                            stride);
    spec.format.value->Encode(MutableValuePlane(spec.format, layout, dim, page), {0, kPageTokens},
                              keys + plane, stride);
  }
}

}  // namespace

BenchWork WorkOf(const BenchPagesSpec& spec) {
  BenchWork work;
  const auto calls =
      static_cast<std::uint64_t>(spec.turns) * static_cast<std::uint64_t>(spec.layers);
  const auto heads = calls * static_cast<std::uint64_t>(spec.shape.num_kv_heads);
  work.page_bytes = PageLayout::For(spec.format, spec.shape.head_dim).bytes;
  work.frames = static_cast<std::uint64_t>(spec.turns) * FramesOfTurn(spec);
  work.pages = heads * FramesOfTurn(spec);
  work.visits = heads * spec.batch * PagesOf(spec.context);
  const double pairs = spec.queries * (spec.context - (spec.queries - 1) / 2.0) * spec.batch;
  work.flops =
      4.0 * pairs * spec.shape.num_heads * spec.shape.head_dim * static_cast<double>(calls);
  work.calls = static_cast<int>(calls);
  if (spec.removed > 0) CountSegments(spec, &work);
  work.distinct_bytes = work.pages * work.page_bytes;
  return work;
}

Result<std::unique_ptr<BenchPages>> BenchPages::Make(const BenchPagesSpec& spec,
                                                     BenchArena* arena) {
  SKV_CHECK(spec.shared_tokens % kPageTokens == 0 && spec.shared_tokens <= spec.context);
  SKV_CHECK(spec.queries >= 1 && spec.queries <= spec.context);
  SKV_CHECK(spec.removed == 0 || spec.shared_tokens == 0);
  std::unique_ptr<BenchPages> pages(new BenchPages(spec));
  // The pages that are copied lie in the arena first.
  const std::size_t bytes =
      std::max<std::size_t>(pages->work_.distinct_bytes, kDistinctPages * pages->layout_.bytes);
  SKV_RETURN_IF_ERROR(arena->Ensure(bytes));
  pages->Fill(arena);
  if (spec.removed > 0) {
    pages->BuildSegmentRuns(*arena);
  } else {
    pages->BuildRuns(*arena);
  }
  pages->BuildSequences();
  return pages;
}

BenchPages::BenchPages(const BenchPagesSpec& spec)
    : spec_(spec),
      work_(WorkOf(spec)),
      layout_(PageLayout::For(spec.format, spec.shape.head_dim)) {}

void BenchPages::Fill(BenchArena* arena) {
  std::byte* const base = arena->data();
  EncodePages(spec_, layout_, base);
  const std::size_t period = kDistinctPages * static_cast<std::size_t>(layout_.bytes);
  const std::size_t bytes = work_.distinct_bytes;
  for (std::size_t at = period; at < bytes; at += period) {
    std::memcpy(base + at, base, std::min(period, bytes - at));
  }
}

void BenchPages::BuildRuns(const BenchArena& arena) {
  const int pages = PagesOf(spec_.context);
  const int shared = SharedPages(spec_);
  std::vector<std::uint32_t> order(work_.frames);
  std::iota(order.begin(), order.end(), 0U);
  std::mt19937 random{2};
  if (spec_.shuffled) std::shuffle(order.begin(), order.end(), random);

  auto next = order.begin();
  for (int turn = 0; turn < spec_.turns; ++turn) {
    const auto prefix = next;
    next += shared;
    for (int s = 0; s < spec_.batch; ++s) {
      frames_.insert(frames_.end(), prefix, prefix + shared);
      frames_.insert(frames_.end(), next, next + (pages - shared));
      next += pages - shared;
    }
  }

  PageRun run;
  run.base = arena.data();
  run.frame_stride = FrameBytes(spec_, layout_.bytes);
  run.head_stride = layout_.bytes;
  run.num_pages = pages;
  run.num_tokens = spec_.context;
  run.end_head = spec_.shape.num_kv_heads;
  run.format = spec_.format;
  run.layout = layout_;
  for (int turn = 0; turn < spec_.turns; ++turn) {
    for (int layer = 0; layer < spec_.layers; ++layer) {
      for (int s = 0; s < spec_.batch; ++s) {
        run.frames = frames_.data() + static_cast<std::size_t>(turn * spec_.batch + s) * pages;
        run.layer_offset = static_cast<std::size_t>(layer * run.end_head) * layout_.bytes;
        runs_.push_back(run);
      }
    }
  }
}

// Tails lie in frames as dense pages do, segments behind them.
void BenchPages::BuildSegmentRuns(const BenchArena& arena) {
  const SegmentPages segment = SegmentPagesOf(spec_);
  const int heads = spec_.shape.num_kv_heads;
  const int end = segment.end_page * kPageTokens;
  const std::size_t frame_pages = FrameBytes(spec_, 1);
  std::mt19937 random{2};
  const int tail_frames = spec_.turns * spec_.batch * segment.tail_pages;
  std::vector<std::uint32_t> tails(static_cast<std::size_t>(tail_frames));
  std::iota(tails.begin(), tails.end(), 0U);
  if (spec_.shuffled) std::shuffle(tails.begin(), tails.end(), random);
  frames_ =
      PlaceSegmentPages(spec_, segment, static_cast<std::uint32_t>(tails.size() * frame_pages));
  const std::size_t first_tail = frames_.size();
  frames_.insert(frames_.end(), tails.begin(), tails.end());
  positions_ = SpreadPositions(segment);

  PageRun run;
  run.base = arena.data();
  run.format = spec_.format;
  run.layout = layout_;
  run.head_stride = layout_.bytes;
  const std::uint32_t* next = frames_.data();
  runs_of_sequence_ = heads + 1;
  for (int i = 0; i < work_.calls * spec_.batch; ++i) {
    const int layer = i / spec_.batch % spec_.layers;
    const int sequence = i / (spec_.batch * spec_.layers) * spec_.batch + i % spec_.batch;
    run.frame_stride = layout_.bytes;
    run.layer_offset = 0;
    for (int head = 0; head < heads; ++head) {
      run.num_pages = KeptPages(segment, layer, head);
      run.num_tokens = run.num_pages * kPageTokens;
      run.frames = next;
      run.first_head = head;
      run.end_head = head + 1;
      run.first_position = 0;
      run.positions = positions_.data() + static_cast<std::ptrdiff_t>((head + layer) % heads) * end;
      runs_.push_back(run);
      next += run.num_pages;
    }
    run.frame_stride = frame_pages * layout_.bytes;
    run.layer_offset = static_cast<std::size_t>(layer * heads) * layout_.bytes;
    run.num_pages = segment.tail_pages;
    run.num_tokens = spec_.context - end;
    run.frames =
        frames_.data() + first_tail + static_cast<std::ptrdiff_t>(sequence) * segment.tail_pages;
    run.first_head = 0;
    run.end_head = heads;
    run.first_position = end;
    run.positions = nullptr;
    runs_.push_back(run);
  }
}

void BenchPages::BuildSequences() {
  const auto count = static_cast<std::size_t>(runs_of_sequence_);
  for (std::size_t i = 0; i < runs_.size() / count; ++i) {
    sequences_.push_back({.runs = {&runs_[i * count], count},
                          .first_row = static_cast<int>(i % spec_.batch) * spec_.queries,
                          .num_rows = spec_.queries,
                          .first_position = spec_.context - spec_.queries});
  }
  q_ = NormalValues(static_cast<std::size_t>(spec_.batch) * spec_.queries * spec_.shape.num_heads *
                    spec_.shape.head_dim);
  out_.resize(q_.size());
}

AttentionBatch BenchPages::batch(int turn, int layer) {
  const auto batch = static_cast<std::size_t>(spec_.batch);
  const std::size_t first = static_cast<std::size_t>(turn * spec_.layers + layer) * batch;
  return {.shape = spec_.shape,
          .sequences = std::span(sequences_).subspan(first, batch),
          .q = q_.data(),
          .out = out_.data()};
}

}  // namespace swiftkv
