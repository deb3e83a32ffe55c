// SPDX-License-Identifier: Apache-2.0
// Collects the second moments of the queries of every kv head while the model computes.
//
// Owner: whoever measures. Add() is called by every thread of a step with (thread, num_threads);
// threads take different heads.
#pragma once

#include <cstddef>
#include <vector>

#include "model/decoder_spec.h"

namespace swiftkv {

class QueryMoments {
 public:
  // `spec` outlives the object.
  explicit QueryMoments(const DecoderSpec& spec);

  // Adds queries of a layer after RoPE, [num_rows, num_heads, head_dim].
  void Add(int layer, const float* queries, int num_rows, int thread, int num_threads);

  // Returns the moment of the queries that read a kv head, [head_dim, head_dim], summed, as if
  // the same text had stood at every position of the model's context (at most kMostPositions):
  // RoPE turns what queries have in common with the position, so that what few positions show
  // is not what a long context reads.
  std::vector<double> AtAllPositions(int layer, int kv_head) const;

  static constexpr int kMostPositions = 32768;

 private:
  std::size_t dim() const { return static_cast<std::size_t>(spec_.head_dim); }

  const DecoderSpec& spec_;
  std::vector<std::vector<std::vector<float>>> sums_;  // [layers][kv_heads][dim * dim], i >= j only
};

}  // namespace swiftkv
