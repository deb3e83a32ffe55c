// SPDX-License-Identifier: Apache-2.0
// Defines who receives the queries that a step computes: for whoever scores what was cached.
//
// A slice of a batch names its sink or none; a batch without sinks costs nothing. Calls come while
// the graph computes, for each layer on every thread of the team, between two barriers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace swiftkv {

// Queries of one layer for the rows of one slice, after norms of Q. Valid during the call.
struct SliceQueries {
  int layer = 0;
  const float* plain = nullptr;     // before RoPE, [num_rows, plain_stride]: head h's row starts at
                                    // h * head_dim
  const float* turned = nullptr;    // after RoPE, [num_rows, turned_stride]
  std::size_t plain_stride = 0;     // floats between two rows
  std::size_t turned_stride = 0;    // likewise
  std::int64_t first_position = 0;  // of the first row; the others follow
  int num_rows = 0;
};

class QuerySink {
 public:
  virtual ~QuerySink() = default;

  // Called once by every thread of the team with the same queries; the threads divide the work.
  // Rows of a step that was cancelled may have been added in part: whoever repeats it starts anew.
  virtual void Add(const SliceQueries& queries, int thread, int num_threads) = 0;
};

}  // namespace swiftkv
