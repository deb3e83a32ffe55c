// SPDX-License-Identifier: Apache-2.0
// Gathers the mean and covariance of the queries of each head, before RoPE, as they are computed.
//
// Owner: whoever measures. Chunks are folded in by the update of Chan, Golub and LeVeque ("Updating
// Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979): deviations are taken
// from each chunk's own mean, so a large mean costs no digits, and what chunks were does not matter
// but for rounding. Different heads may be added by different threads at the same time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace swiftkv {

// Query rows of one step, of heads [first_head, end_head).
struct QueryRows {
  const float* rows = nullptr;  // [num_rows, row_stride]: head h's row starts at h * head_dim
  std::size_t row_stride = 0;   // floats
  int num_rows = 0;
  int first_head = 0;
  int end_head = 0;
};

class QueryStatistics {
 public:
  // Takes head_dim (head_dim + 1) / 2 + head_dim floats and a count for each of `num_heads`.
  QueryStatistics(int num_heads, int head_dim);

  void Add(const QueryRows& queries);

  // Adds what another object of the same shape has gathered.
  void Merge(const QueryStatistics& other);

  std::int64_t count(int head) const { return counts_[static_cast<std::size_t>(head)]; }

  // Writes the means, [num_heads, head_dim], as ScoreInputs takes them; 0 without queries.
  void CopyMean(std::span<float> mean) const;

  // Writes the covariances, [num_heads, head_dim, head_dim], over the number of queries; 0 without.
  void CopyCovariance(std::span<float> covariance) const;

  std::uint64_t heap_bytes() const;

 private:
  std::size_t triangle() const { return dim_ * (dim_ + 1) / 2; }
  // Adds `count` queries of this mean, whose products of deviations were added already.
  void FoldMean(std::size_t head, std::int64_t count, std::span<const double> mean);

  std::size_t dim_;
  std::vector<std::int64_t> counts_;  // [num_heads]
  std::vector<double> means_;         // [num_heads, head_dim]
  std::vector<float> products_;       // [num_heads, triangle] sums of (q - mean)_i (q - mean)_j
};

}  // namespace swiftkv
