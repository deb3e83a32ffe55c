// SPDX-License-Identifier: Apache-2.0
// Compares moments with sums of outer products, and averages over positions with queries that are
// turned one by one.
#include "model/query_moments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace swiftkv {
namespace {

constexpr int kDim = 16;
constexpr int kRows = 20;
constexpr int kHeads = 6;
constexpr int kKvHeads = 2;

DecoderSpec Spec(RopeLayout layout, int context) {
  DecoderSpec spec;
  spec.head_dim = kDim;
  spec.context_length = context;
  DecoderLayerSpec layer;
  layer.num_heads = kHeads;
  layer.kv_heads = kKvHeads;
  layer.rope.layout = layout;
  layer.rope.dims = 12;
  layer.rope.base = 100.0F;
  layer.rope.frequency_scale = 0.5F;
  spec.layers = {layer, layer};
  return spec;
}

std::vector<float> Queries() {
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0.5F, 1.0F);
  std::vector<float> queries(std::size_t{kRows} * kHeads * kDim);
  for (float& value : queries) value = normal(random);
  return queries;
}

// RoPE by the formula, at any position.
std::vector<double> Turned(const float* query, const RopeSpec& rope, double position) {
  std::vector<double> turned(query, query + kDim);
  for (int i = 0; i < rope.dims / 2; ++i) {
    const double frequency =
        std::pow(static_cast<double>(rope.base), -2.0 * i / rope.dims) * rope.frequency_scale;
    const bool split = rope.layout == RopeLayout::kSplitHalf;
    const int a = split ? i : 2 * i;
    const int b = split ? i + rope.dims / 2 : 2 * i + 1;
    const double c = std::cos(position * frequency);
    const double s = std::sin(position * frequency);
    turned[static_cast<std::size_t>(a)] = c * query[a] - s * query[b];
    turned[static_cast<std::size_t>(b)] = s * query[a] + c * query[b];
  }
  return turned;
}

void ExpectMoment(const DecoderSpec& spec, const std::vector<double>& offsets) {
  const std::vector<float> queries = Queries();
  QueryMoments moments(spec);
  for (int thread = 0; thread < 3; ++thread) moments.Add(1, queries.data(), kRows, thread, 3);
  for (int kv_head = 0; kv_head < kKvHeads; ++kv_head) {
    std::vector<double> expected(std::size_t{kDim} * kDim);
    for (int row = 0; row < kRows; ++row) {
      for (int head = 3 * kv_head; head < 3 * kv_head + 3; ++head) {
        for (const double offset : offsets) {
          const std::vector<double> q =
              Turned(queries.data() + (row * kHeads + head) * kDim, spec.layers[1].rope, offset);
          for (std::size_t i = 0; i < kDim; ++i) {
            for (std::size_t j = 0; j < kDim; ++j) {
              expected[i * kDim + j] += q[i] * q[j] / static_cast<double>(offsets.size());
            }
          }
        }
      }
    }
    const std::vector<double> moment = moments.AtAllPositions(1, kv_head);
    for (std::size_t i = 0; i < moment.size(); ++i) {
      EXPECT_NEAR(moment[i], expected[i], 1e-3) << kv_head << " " << i;
    }
  }
  for (const double value : moments.AtAllPositions(0, 0)) EXPECT_EQ(value, 0.0);
}

TEST(QueryMomentsTest, AContextOfNoPositionsGivesSumsOfOuterProducts) {
  ExpectMoment(Spec(RopeLayout::kInterleaved, 0), {0.0});
}

TEST(QueryMomentsTest, QueriesAreTurnedThroughTheContextMoreOftenNearItsStart) {
  for (const RopeLayout layout : {RopeLayout::kInterleaved, RopeLayout::kSplitHalf}) {
    std::vector<double> offsets;
    for (int i = 0; i < 64; ++i) offsets.push_back(300.0 * (i / 64.0) * (i / 64.0));
    ExpectMoment(Spec(layout, 300), offsets);
  }
}

}  // namespace
}  // namespace swiftkv
