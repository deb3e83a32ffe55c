// SPDX-License-Identifier: Apache-2.0
// Keeps the newest queries of a sequence, after RoPE, of every layer without a window.
//
// Owner: whoever observes the sequence. Add() is called as QuerySink::Add is: every thread of a
// step, threads take different heads. A position has a fixed place in a ring, so that threads share
// no state. Layers with a window hold nothing: what they see is not chosen by scores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/decoder_spec.h"
#include "model/query_sink.h"

namespace swiftkv {

class RecentQueries {
 public:
  // Keeps up to `capacity` >= 1 rows, num_heads * head_dim floats each, a layer. `spec` outlives
  // the object.
  RecentQueries(const DecoderSpec& spec, int capacity);

  // Rows that do not follow those held replace them.
  void Add(const SliceQueries& queries, int thread, int num_threads);

  int count(int layer) const;                    // rows held, [0, capacity]
  std::int64_t first_position(int layer) const;  // of the oldest row held
  // Writes the rows held, [count, num_heads, head_dim], oldest first.
  void Copy(int layer, std::span<float> rows) const;

  std::uint64_t heap_bytes() const;

 private:
  struct Layer {
    std::size_t row_size = 0;  // floats; 0: holds nothing
    std::int64_t first = 0;    // positions [first, end) came without a gap
    std::int64_t end = 0;
    std::vector<float> ring;  // [capacity, row_size]: position p at p % capacity
  };

  const DecoderSpec& spec_;
  std::int64_t capacity_;
  std::vector<Layer> layers_;
};

}  // namespace swiftkv
