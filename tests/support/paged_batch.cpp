// SPDX-License-Identifier: Apache-2.0
// Lays out, shuffles and fills the pages of a batch through the page codecs.
#include "support/paged_batch.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <set>

#include "base/check.h"
#include "formats/codec_table.h"

namespace swiftkv {
namespace {

PageFormat FormatOf(const RunSpec& run) {
  return {.key = FindCodec(run.key_format).value(), .value = FindCodec(run.value_format).value()};
}

// Frames hold this many layers; the batch is the second, so that a layer offset is in play.
constexpr std::size_t kLayers = 2;

}  // namespace

PagedBatch::PagedBatch(const PagedBatchSpec& spec) : shape_(spec.shape), random_(spec.seed) {
  runs_.resize(spec.sequences.size());
  int rows = 0;
  for (std::size_t s = 0; s < spec.sequences.size(); ++s) {
    std::int64_t position = 0;
    for (const RunSpec& run : spec.sequences[s].runs) {
      if (run.beside) position -= run.num_tokens;
      AddRun(spec, run, position, &runs_[s]);
      position += run.num_tokens;
    }
    sequences_.push_back({.runs = {},
                          .first_row = rows,
                          .num_rows = spec.sequences[s].num_rows,
                          .first_position = position - spec.sequences[s].num_rows});
    rows += spec.sequences[s].num_rows;
  }
  PlaceFrames();
  for (std::size_t s = 0; s < spec.sequences.size(); ++s) ShareFrames(spec, s);
  const auto vectors = static_cast<std::size_t>(rows * shape_.num_heads);
  q_.resize(vectors * static_cast<std::size_t>(shape_.head_dim));
  std::normal_distribution<float> unit;
  const auto normal = [&](std::mt19937& random) { return spec.magnitude * unit(random); };
  for (float& value : q_) value = normal(random_);
  out_.resize(q_.size());
  lse_.resize(vectors);
  for (std::size_t s = 0; s < runs_.size(); ++s) {
    std::size_t slots = 0;
    for (std::size_t r = 0; r < runs_[s].size(); ++r) {
      FillRun(spec, runs_[s][r], SharedPages(spec, s, r));
      slots += static_cast<std::size_t>(runs_[s][r].num_tokens);
    }
    sequences_[s].runs = runs_[s];
    scores_.emplace_back(slots * static_cast<std::size_t>(shape_.num_kv_heads));
  }
  for (std::vector<float>& scores : scores_) score_views_.emplace_back(scores);
  sink_.sums = score_views_;
  SpoilResults();
}

void PagedBatch::AddRun(const PagedBatchSpec& spec, const RunSpec& run, std::int64_t first_position,
                        std::vector<PageRun>* runs) {
  const int heads = spec.shape.num_kv_heads;
  for (int head = 0; head < (run.per_head ? heads : 1); ++head) {
    PageRun view;
    view.format = FormatOf(run);
    view.layout = PageLayout::For(view.format, spec.shape.head_dim);
    view.first_head = run.per_head ? head : 0;
    view.end_head = run.per_head ? head + 1 : heads;
    view.first_position = first_position;
    std::vector<std::int32_t> positions;
    if (run.per_head) {
      const std::set<std::int32_t> taken =
          run.beside ? PositionsOf(*runs, head) : std::set<std::int32_t>();
      std::bernoulli_distribution keep(
          run.kept_of_heads.empty() ? run.kept : run.kept_of_heads[static_cast<std::size_t>(head)]);
      for (int t = 0; t < run.num_tokens; ++t) {
        const std::int32_t position = static_cast<std::int32_t>(first_position) + t;
        if (keep(random_) && !taken.contains(position)) positions.push_back(position);
      }
    }
    view.num_tokens = run.per_head ? static_cast<int>(positions.size()) : run.num_tokens;
    view.num_pages = (view.num_tokens + kPageTokens - 1) / kPageTokens;
    view.head_stride = view.layout.bytes;
    frame_stride_ =
        std::max(frame_stride_, kLayers * static_cast<std::size_t>(heads) * view.layout.bytes);
    view.layer_offset = static_cast<std::size_t>(heads) * view.layout.bytes;
    frames_.emplace_back(static_cast<std::size_t>(view.num_pages));
    num_frames_ += static_cast<std::uint32_t>(view.num_pages);
    positions_.push_back(std::move(positions));
    runs->push_back(view);
  }
}

std::set<std::int32_t> PagedBatch::PositionsOf(const std::vector<PageRun>& runs, int head) const {
  std::set<std::int32_t> all;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (runs[r].first_head != head) continue;
    const std::vector<std::int32_t>& held = positions_[positions_.size() - runs.size() + r];
    all.insert(held.begin(), held.end());
  }
  return all;
}

void PagedBatch::PlaceFrames() {
  storage_.resize(num_frames_ * frame_stride_ + kPageAlignment, std::byte{0xFF});
  void* base = storage_.data();
  std::size_t space = storage_.size();
  SKV_CHECK(std::align(kPageAlignment, num_frames_ * frame_stride_, base, space) != nullptr);
  base_ = static_cast<std::byte*>(base);
  std::vector<std::uint32_t> order(num_frames_);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), random_);
  std::size_t run_index = 0;
  std::size_t next = 0;
  for (std::vector<PageRun>& runs : runs_) {
    for (PageRun& run : runs) {
      std::vector<std::uint32_t>& frames = frames_[run_index];
      for (std::uint32_t& frame : frames) frame = order[next++];
      run.base = base_;
      run.frames = frames.data();
      run.frame_stride = frame_stride_;
      if (!positions_[run_index].empty()) run.positions = positions_[run_index].data();
      ++run_index;
    }
  }
}

int PagedBatch::SharedPages(const PagedBatchSpec& spec, std::size_t sequence,
                            std::size_t run_index) const {
  const PageRun& run = runs_[sequence][run_index];
  const std::int64_t tokens = spec.sequences[sequence].shared.tokens - run.first_position;
  if (tokens <= 0) return 0;
  if (run.positions != nullptr) return run.num_pages;
  return static_cast<int>(
      std::min<std::int64_t>(run.num_pages, (tokens + kPageTokens - 1) / kPageTokens));
}

void PagedBatch::ShareFrames(const PagedBatchSpec& spec, std::size_t sequence) {
  const std::vector<PageRun>& source =
      runs_[static_cast<std::size_t>(spec.sequences[sequence].shared.sequence)];
  std::size_t first_run = 0;  // of the sequence, in frames_
  for (std::size_t s = 0; s < sequence; ++s) first_run += runs_[s].size();
  for (std::size_t r = 0; r < runs_[sequence].size(); ++r) {
    PageRun& run = runs_[sequence][r];
    if (spec.sequences[sequence].shared.tokens <= run.first_position) return;
    SKV_CHECK(r < source.size() && run.first_position == source[r].first_position &&
              run.format == source[r].format);
    // A head that keeps nothing has no positions.
    if (run.positions != nullptr || source[r].positions != nullptr || run.num_tokens == 0) {
      run = source[r];
      continue;
    }
    const int shared = SharedPages(spec, sequence, r);
    SKV_CHECK(shared <= source[r].num_pages);
    std::copy_n(source[r].frames, shared, frames_[first_run + r].begin());
  }
}

void PagedBatch::FillRun(const PagedBatchSpec& spec, const PageRun& run, int first_page) {
  const auto dim = static_cast<std::size_t>(shape_.head_dim);
  std::vector<float> rows(kPageTokens * dim);
  std::normal_distribution<float> unit;
  const auto normal = [&](std::mt19937& random) { return spec.magnitude * unit(random); };
  for (int page = first_page; page < run.num_pages; ++page) {
    const int count = std::min(kPageTokens, run.num_tokens - page * kPageTokens);
    for (int head = run.first_head; head < run.end_head; ++head) {
      std::byte* bytes = base_ + (run.Page(page, head) - base_);
      for (float& value : rows) value = normal(random_);
      for (std::size_t at = 3; at < rows.size(); at += dim) rows[at] += spec.key_bias;
      run.format.key->Encode(MutableKeyPlane(run.format, run.layout, shape_.head_dim, bytes),
                             {0, count}, rows.data(), dim);
      for (float& value : rows) value = normal(random_);
      run.format.value->Encode(MutableValuePlane(run.format, run.layout, shape_.head_dim, bytes),
                               {0, count}, rows.data(), dim);
    }
  }
}

AttentionBatch PagedBatch::batch() {
  return {.shape = shape_,
          .sequences = sequences_,
          .q = q_.data(),
          .out = out_.data(),
          .lse = lse_.data()};
}

AttentionBatch PagedBatch::scored_batch() {
  AttentionBatch scored = batch();
  scored.sink = &sink_;
  return scored;
}

void PagedBatch::ClearScores() {
  for (std::vector<float>& scores : scores_) std::fill(scores.begin(), scores.end(), 0.0F);
}

void PagedBatch::SpoilResults() {
  std::fill(out_.begin(), out_.end(), std::numeric_limits<float>::quiet_NaN());
  std::fill(lse_.begin(), lse_.end(), std::numeric_limits<float>::quiet_NaN());
}

}  // namespace swiftkv
