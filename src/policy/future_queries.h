// SPDX-License-Identifier: Apache-2.0
// Predicts where the next queries of a head lie: their mean and covariance after RoPE.
//
// With R_p the rotation at position p and R the mean of R_p over the next `horizon` positions,
// queries of mean m and covariance C before RoPE have R m and R C R' after it, on average (Devoto
// et al., "Expected Attention", arXiv:2510.00636, section 3). R is a rotation and a shrinking of
// each pair: fast pairs come to nothing, slow ones keep what they are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/score_inputs.h"

namespace swiftkv {

class MeanRotation {
 public:
  // The positions [first, first + horizon), horizon >= 1.
  MeanRotation(const RopeRotation& rope, std::int64_t first, std::int64_t horizon);

  // Turns a row, [head_dim], in place: r becomes R r.
  void TurnRow(std::span<float> row) const;

  // Turns a matrix, [dim, dim], in place: C becomes R C R'.
  void TurnMatrix(std::span<float> matrix, std::size_t dim) const;

 private:
  struct Pair {
    std::size_t low;  // channels
    std::size_t high;
    float cosine;  // means over positions, times the magnitude
    float sine;
  };

  std::vector<Pair> pairs_;
};

}  // namespace swiftkv
