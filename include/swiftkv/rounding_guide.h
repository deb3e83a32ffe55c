// SPDX-License-Identifier: Apache-2.0
// States which errors of a key's channels matter to the queries that read it. Layer: formats.
//
// A score is a dot product, so the squared error that rounding a key leaves in scores is e' M e on
// average over queries, where e holds the channels' errors and M is the queries' second moment.
// Queries lie mostly in few directions: the error of one channel can be made up for by those of the
// channels that are rounded after it, as GPTQ does for weights (Frantar et al., arXiv:2210.17323).
// A guide only chooses between codes. What codes mean does not depend on it, so pages that were
// written with different guides, or with none, may be read together.
#pragma once

#include <span>
#include <vector>

namespace swiftkv {

// With M = C' D C in the coordinates of stored (rotated) rows, C unit lower triangular, D diagonal:
// channel j is rounded after adding to it C(j, i) times the error of every channel i before it, and
// the squared error of scores is the sum of D(j) times the square of what is cut off then.
struct RoundingGuide {
  std::vector<float> spread;   // [head_dim, head_dim]: row i holds C(j, i) at j > i, else 0
  std::vector<float> weights;  // [head_dim]: D
};

// Guides of a model's keys: [layers][kv_heads].
using KeyGuides = std::vector<std::vector<RoundingGuide>>;

// Returns the guide for rows that queries of the second moment `moment`, [head_dim, head_dim],
// read; both before the rotation of formats. A tenth of the mean of the diagonal is added to it:
// no direction is free. A moment that is 0 or not finite gives the guide of queries of no
// preferred direction, under which each channel goes to its nearest code.
RoundingGuide GuideForQueries(std::span<const double> moment, int head_dim);

}  // namespace swiftkv
