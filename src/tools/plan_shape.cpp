// SPDX-License-Identifier: Apache-2.0
// Counts layers, weights and activations of a decoder.
#include "tools/plan_shape.h"

#include <algorithm>

namespace swiftkv {
namespace {

// Counts are exact below 2^53; shapes from outside may be of any size.
double Matrix(double rows, double columns) { return rows * columns; }

std::uint64_t Whole(double count) {
  constexpr double kMost = 1e18;  // times the bytes of any weight, still a number of 64 bits
  return static_cast<std::uint64_t>(std::min(count, kMost));
}

bool HasWindow(const PlanShape& shape, int layer) {
  return shape.window > 0 && (shape.full_every == 0 || (layer + 1) % shape.full_every != 0);
}

// Q, K, V and output projections.
double AttentionParameters(const PlanShape& shape) {
  const double hidden = shape.hidden;
  const double heads = shape.query_heads;
  if (shape.latent.rank == 0) {
    return 2 * Matrix(hidden, heads * shape.head_dim) +
           2 * Matrix(hidden, static_cast<double>(shape.kv_heads) * shape.head_dim);
  }
  const PlanShape::Latent& latent = shape.latent;
  const double query = heads * (latent.plain_dim + latent.rope_dim);
  double count = latent.query_rank == 0
                     ? Matrix(hidden, query)
                     : Matrix(latent.query_rank, hidden) + Matrix(latent.query_rank, query);
  count += Matrix(hidden, latent.rank + latent.rope_dim);
  count += Matrix(latent.rank, heads * (latent.plain_dim + latent.value_dim));
  return count + Matrix(hidden, heads * latent.value_dim);
}

// Gate, up and down matrices.
double FeedForwardParameters(const PlanShape& shape, int layer) {
  const PlanShape::Experts& experts = shape.experts;
  if (experts.count == 0 || layer < experts.dense_layers)
    return 3 * Matrix(shape.hidden, shape.ffn);
  return 3 * Matrix(shape.hidden, experts.ffn) *
             (static_cast<double>(experts.count) + experts.shared) +
         Matrix(shape.hidden, experts.count);
}

}  // namespace

std::vector<ShapedLayer> ExpandLayers(const PlanShape& shape, std::span<const int> windows) {
  std::vector<ShapedLayer> layers;
  for (int i = 0; i < shape.layers; ++i) {
    int window = HasWindow(shape, i) ? shape.window : 0;
    if (!windows.empty()) window = windows[static_cast<std::size_t>(i)];
    if (window >= shape.context) window = 0;  // never drops anything
    ShapedLayer layer;
    layer.query_heads = shape.query_heads;
    layer.stored = {shape.kv_heads, shape.head_dim, shape.head_dim, window};
    layer.unshared = {shape.query_heads, shape.head_dim, shape.head_dim, window};
    if (shape.latent.rank > 0) {
      const PlanShape::Latent& latent = shape.latent;
      layer.stored = {1, latent.rank + latent.rope_dim, 0, window};
      layer.unshared = {shape.query_heads, latent.plain_dim + latent.rope_dim, latent.value_dim,
                        window};
    }
    layers.push_back(layer);
  }
  return layers;
}

std::uint64_t CountParameters(const PlanShape& shape) {
  double count = Matrix(shape.vocabulary, shape.hidden) * (shape.tied_output ? 1 : 2);
  for (int i = 0; i < shape.layers; ++i) {
    count += AttentionParameters(shape) + FeedForwardParameters(shape, i);
  }
  return Whole(count);
}

std::uint64_t CountExpertParameters(const PlanShape& shape) {
  const PlanShape::Experts& experts = shape.experts;
  const int layers = std::max(0, shape.layers - experts.dense_layers);
  return Whole(3 * Matrix(shape.hidden, experts.ffn) * Matrix(layers, experts.count));
}

PlanModel ModelOfShape(const PlanShape& shape, std::span<const int> windows,
                       const WeightType& weights) {
  PlanModel model;
  model.context = shape.context;
  model.layers = ExpandLayers(shape, windows);
  model.parameters = CountParameters(shape);
  model.weights_bytes =
      static_cast<std::uint64_t>(static_cast<double>(model.parameters) * weights.bits / 8);
  model.weights_type = weights.name;
  model.weights_are_counted = false;
  model.hidden = shape.hidden;
  model.ffn = std::max(shape.ffn, shape.experts.ffn);
  model.vocabulary = shape.vocabulary;
  return model;
}

// For each row of a step, in f32: the residual stream, its norm and their sum, what attention reads
// and returns, gate and up; and the logits of a few rows. A tenth off what a loaded model of 0.1 to
// 0.3 billion weights reports.
std::uint64_t EstimateActivationBytes(const PlanModel& model) {
  constexpr double kLogitRows = 4;
  double heads_width = 0;
  for (const ShapedLayer& layer : model.layers) {
    const PlanLayer& unshared = layer.unshared;
    heads_width = std::max(heads_width, Matrix(unshared.kv_heads, unshared.key_dim));
  }
  const double row = 3.0 * model.hidden + 2 * heads_width + 2.0 * model.ffn;
  const auto logits = Matrix(kLogitRows, model.vocabulary);
  return Whole(sizeof(float) * (KvPlan::kStepTokens * row + logits));
}

}  // namespace swiftkv
