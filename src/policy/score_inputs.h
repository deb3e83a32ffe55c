// SPDX-License-Identifier: Apache-2.0
// Carries what scorers may look at, as plain data: no cache, no clock, no model.
#pragma once

#include <cstdint>
#include <span>

namespace swiftkv {

// What a method declares it needs; the engine fills only that.
struct ScoreNeeds {
  bool keys = false;
  bool value_norms = false;
  bool query_statistics = false;
  bool probabilities = false;
  bool hidden_states = false;
};

// One layer of one sequence. Spans that the method did not ask for are empty.
struct ScoreInputs {
  int layer = 0;
  int num_layers = 0;
  int kv_heads = 0;
  int gqa = 1;  // query heads per kv head
  int head_dim = 0;
  int num_tokens = 0;                       // scored entries per head
  std::int64_t next_position = 0;           // logical length of the sequence
  std::span<const std::int32_t> positions;  // [num_tokens] original positions, ascending
  std::span<const float> keys;              // [kv_heads, num_tokens, head_dim] post-RoPE
  std::span<const float> value_norms;       // [kv_heads, num_tokens] L2 norms
  std::span<const float> query_mean;        // [kv_heads * gqa, head_dim] pre-RoPE
  std::span<const float> query_covariance;  // [kv_heads * gqa, head_dim, head_dim] pre-RoPE
  std::span<const float>
      probabilities;  // [kv_heads, num_tokens] summed over observed queries and the group
  std::span<const float> hidden_states;  // [num_tokens, hidden_dim]
  int hidden_dim = 0;
  float rope_base = 0;  // of this layer; 0 where the layer has no rope
  std::uint64_t seed = 0;
};

}  // namespace swiftkv
