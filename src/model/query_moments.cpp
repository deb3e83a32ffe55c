// SPDX-License-Identifier: Apache-2.0
// Sums outer products, and turns the sums through positions.
#include "model/query_moments.h"

#include <algorithm>
#include <cmath>

namespace swiftkv {
namespace {

constexpr int kOffsets = 64;  // positions that are averaged over

// Turns every column of `matrix`, [dim, dim], as RoPE turns a row by `offset` positions. Scaling
// beyond a common factor is left out: it moves only frequencies between those that are there.
void TurnColumns(const RopeSpec& rope, double offset, std::size_t dim,
                 std::vector<double>* matrix) {
  const auto half = static_cast<std::size_t>(rope.dims) / 2;
  for (std::size_t pair = 0; pair < half; ++pair) {
    const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(rope.dims);
    const double frequency = std::pow(static_cast<double>(rope.base), exponent);
    const double angle = offset * static_cast<double>(rope.frequency_scale) * frequency;
    const double cosine = std::cos(angle);
    const double sine = std::sin(angle);
    const bool split = rope.layout == RopeLayout::kSplitHalf;
    double* const low = matrix->data() + (split ? pair : 2 * pair) * dim;
    double* const high = matrix->data() + (split ? pair + half : 2 * pair + 1) * dim;
    for (std::size_t column = 0; column < dim; ++column) {
      const double a = low[column];
      const double b = high[column];
      low[column] = cosine * a - sine * b;
      high[column] = sine * a + cosine * b;
    }
  }
}

void Transpose(std::size_t dim, std::vector<double>* matrix) {
  for (std::size_t i = 0; i < dim; ++i) {
    for (std::size_t j = 0; j < i; ++j) std::swap((*matrix)[i * dim + j], (*matrix)[j * dim + i]);
  }
}

}  // namespace

QueryMoments::QueryMoments(const DecoderSpec& spec) : spec_(spec) {
  for (const DecoderLayerSpec& layer : spec.layers) {
    sums_.emplace_back(static_cast<std::size_t>(layer.kv_heads), std::vector<float>(dim() * dim()));
  }
}

void QueryMoments::Add(int layer, const float* queries, int num_rows, int thread, int num_threads) {
  const DecoderLayerSpec& shape = spec_.layers[static_cast<std::size_t>(layer)];
  const int heads_per_kv = shape.num_heads / shape.kv_heads;
  const std::size_t row_stride = static_cast<std::size_t>(shape.num_heads) * dim();
  for (int kv_head = thread; kv_head < shape.kv_heads; kv_head += num_threads) {
    float* const sum =
        sums_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(kv_head)].data();
    for (int row = 0; row < num_rows; ++row) {
      for (int head = kv_head * heads_per_kv; head < (kv_head + 1) * heads_per_kv; ++head) {
        const float* const query = queries + static_cast<std::size_t>(row) * row_stride +
                                   static_cast<std::size_t>(head) * dim();
        for (std::size_t i = 0; i < dim(); ++i) {
          for (std::size_t j = 0; j <= i; ++j) sum[i * dim() + j] += query[i] * query[j];
        }
      }
    }
  }
}

std::vector<double> QueryMoments::AtAllPositions(int layer, int kv_head) const {
  const std::vector<float>& sum =
      sums_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(kv_head)];
  const RopeSpec& rope = spec_.layers[static_cast<std::size_t>(layer)].rope;
  const double span = std::min(spec_.context_length, kMostPositions);
  std::vector<double> average(dim() * dim());
  for (int step = 0; step < kOffsets; ++step) {
    std::vector<double> turned(dim() * dim());
    for (std::size_t i = 0; i < dim(); ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        turned[i * dim() + j] = turned[j * dim() + i] = static_cast<double>(sum[i * dim() + j]);
      }
    }
    // More of early positions, which every context has.
    const double part = static_cast<double>(step) / kOffsets;
    const double offset = span * part * part;
    TurnColumns(rope, offset, dim(), &turned);
    Transpose(dim(), &turned);
    TurnColumns(rope, offset, dim(), &turned);
    for (std::size_t i = 0; i < turned.size(); ++i) average[i] += turned[i] / kOffsets;
  }
  return average;
}

}  // namespace swiftkv
