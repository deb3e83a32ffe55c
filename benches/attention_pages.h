// SPDX-License-Identifier: Apache-2.0
// Fills an arena with pages of many sequences in shuffled frames, for the attention benches.
//
// The arena is as a cache of one layer would be: a frame holds the pages of all kv heads of 16
// tokens. A handful of encoded pages is copied into all frames: kernels do not mind equal bytes,
// and every page has an address of its own.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "formats/codec_table.h"
#include "swiftkv/attention.h"

namespace swiftkv {

struct PagesSpec {
  AttentionShape shape;
  std::string format = "f16";
  int num_sequences = 1;
  int tokens = 0;        // of each sequence
  int rows = 1;          // of each sequence, its last positions
  bool shuffled = true;  // frames in random order, else in the order of tokens
};

class AttentionPages {
 public:
  explicit AttentionPages(const PagesSpec& spec) : spec_(spec) {
    const PageCodec* codec = FindCodec(spec.format).value();
    const PageFormat format{codec, codec};
    const PageLayout layout = PageLayout::For(format, spec.shape.head_dim);
    const int pages = (spec.tokens + kPageTokens - 1) / kPageTokens;
    const std::size_t frame_bytes =
        static_cast<std::size_t>(spec.shape.num_kv_heads) * layout.bytes;
    const std::size_t num_frames = static_cast<std::size_t>(pages) * spec.num_sequences;
    bytes_ = num_frames * frame_bytes;
    arena_ = static_cast<std::byte*>(
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (arena_ == MAP_FAILED) std::abort();
    Fill(format, layout);

    frames_.resize(num_frames);
    std::iota(frames_.begin(), frames_.end(), 0U);
    if (spec.shuffled) std::shuffle(frames_.begin(), frames_.end(), random_);
    for (int s = 0; s < spec.num_sequences; ++s) {
      PageRun run;
      run.base = arena_;
      run.frames = frames_.data() + static_cast<std::size_t>(s) * pages;
      run.frame_stride = frame_bytes;
      run.head_stride = layout.bytes;
      run.num_pages = pages;
      run.num_tokens = spec.tokens;
      run.end_head = spec.shape.num_kv_heads;
      run.format = format;
      run.layout = layout;
      runs_.push_back(run);
    }
    for (int s = 0; s < spec.num_sequences; ++s) {
      sequences_.push_back({.runs = {&runs_[static_cast<std::size_t>(s)], 1},
                            .first_row = s * spec.rows,
                            .num_rows = spec.rows,
                            .first_position = spec.tokens - spec.rows});
    }
    q_.resize(static_cast<std::size_t>(spec.num_sequences * spec.rows * spec.shape.num_heads) *
              spec.shape.head_dim);
    std::normal_distribution<float> normal;
    for (float& value : q_) value = normal(random_);
    out_.resize(q_.size());
  }
  ~AttentionPages() { munmap(arena_, bytes_); }
  AttentionPages(const AttentionPages&) = delete;
  AttentionPages& operator=(const AttentionPages&) = delete;

  AttentionBatch batch() {
    return {.shape = spec_.shape, .sequences = sequences_, .q = q_.data(), .out = out_.data()};
  }
  const std::byte* arena() const { return arena_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void Fill(const PageFormat& format, const PageLayout& layout) {
    const int dim = spec_.shape.head_dim;
    std::vector<float> rows(static_cast<std::size_t>(kPageTokens * dim));
    std::normal_distribution<float> normal;
    constexpr int kDistinct = 8;
    for (int i = 0; i < kDistinct; ++i) {
      std::byte* page = arena_ + i * layout.bytes;
      for (float& value : rows) value = normal(random_);
      format.key->Encode(MutableKeyPlane(format, layout, dim, page), {0, kPageTokens}, rows.data(),
                         static_cast<std::size_t>(dim));
      format.value->Encode(MutableValuePlane(format, layout, dim, page), {0, kPageTokens},
                           rows.data(), static_cast<std::size_t>(dim));
    }
    const std::size_t period = kDistinct * static_cast<std::size_t>(layout.bytes);
    for (std::size_t at = period; at < bytes_; at += period) {
      std::memcpy(arena_ + at, arena_, std::min(period, bytes_ - at));
    }
  }

  PagesSpec spec_;
  std::mt19937 random_{1};
  std::byte* arena_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<std::uint32_t> frames_;  // [num_sequences, pages]
  std::vector<PageRun> runs_;
  std::vector<AttentionSequence> sequences_;
  std::vector<float> q_;    // [rows, num_heads, head_dim]
  std::vector<float> out_;  // [rows, num_heads, head_dim]
};

}  // namespace swiftkv
