// SPDX-License-Identifier: Apache-2.0
// Owns one layer's random ScoreInputs for tests of scorers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "policy/score_inputs.h"

namespace swiftkv {

struct LayerSizes {
  int kv_heads = 2;
  int gqa = 3;
  int head_dim = 32;
  int num_tokens = 50;
};

class RandomLayer {
 public:
  explicit RandomLayer(const LayerSizes& sizes, unsigned seed = 1) : random_(seed) {
    const auto tokens = static_cast<std::size_t>(sizes.num_tokens);
    const auto heads = static_cast<std::size_t>(sizes.kv_heads);
    const auto dim = static_cast<std::size_t>(sizes.head_dim);
    const std::size_t query_heads = heads * static_cast<std::size_t>(sizes.gqa);
    std::int32_t position = 0;
    for (std::size_t t = 0; t < tokens; ++t) {  // with gaps, as after an earlier run
      positions.push_back(position);
      position += 1 + static_cast<std::int32_t>(random_() % 3);
    }
    Fill(heads * tokens * dim, 0.3F, &keys);
    Fill(heads * tokens, 1, &value_norms);
    for (float& norm : value_norms) norm = norm * norm;
    Fill(heads * tokens, 1, &probabilities);
    for (float& probability : probabilities) probability = probability * probability;
    Fill(query_heads * dim, 0, &query_mean);
    Fill(query_heads * dim * dim, 0, &query_covariance);
    std::vector<float> factor;
    for (std::size_t h = 0; h < query_heads; ++h) {  // a product with its transpose
      Fill(dim * dim, 0, &factor);
      for (std::size_t i = 0; i < dim; ++i) {
        for (std::size_t j = 0; j < dim; ++j) {
          float sum = 0;
          for (std::size_t m = 0; m < dim; ++m) sum += factor[i * dim + m] * factor[j * dim + m];
          query_covariance[(h * dim + i) * dim + j] = sum / static_cast<float>(dim);
        }
      }
    }
    inputs.num_layers = 4;
    inputs.layer = 1;
    inputs.kv_heads = sizes.kv_heads;
    inputs.gqa = sizes.gqa;
    inputs.head_dim = sizes.head_dim;
    inputs.num_tokens = sizes.num_tokens;
    inputs.next_position = position + 3;
    inputs.positions = positions;
    inputs.keys = keys;
    inputs.value_norms = value_norms;
    inputs.query_mean = query_mean;
    inputs.query_covariance = query_covariance;
    inputs.probabilities = probabilities;
    inputs.observed_queries = 8;
    inputs.attention_scale = 0.2F;
  }
  RandomLayer(const RandomLayer&) = delete;
  RandomLayer& operator=(const RandomLayer&) = delete;

  std::size_t num_scores() const { return value_norms.size(); }

  std::vector<std::int32_t> positions;
  std::vector<float> keys, value_norms, probabilities, query_mean, query_covariance;
  ScoreInputs inputs;  // views of the above

 private:
  void Fill(std::size_t count, float mean, std::vector<float>* values) {
    std::normal_distribution<float> normal(mean, 1);
    values->resize(count);
    for (float& value : *values) value = normal(random_);
  }

  std::mt19937 random_;
};

}  // namespace swiftkv
