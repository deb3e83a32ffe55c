// SPDX-License-Identifier: Apache-2.0
// Carries what scorers may look at, as plain data: no cache, no clock, no model.
//
// docs/policies.md says which method needs what.
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

// Which channels of a head RoPE turns together.
enum class RopePairs : std::uint8_t {
  kInterleaved,  // (2i, 2i + 1)
  kSplitHalf,    // (i, i + half of the rotated channels)
};

// How a layer turns queries and keys (Su et al., arXiv:2104.09864): at position p, pair i = (a, b)
// becomes magnitude * (a cos - b sin, a sin + b cos) at the angle p * frequencies[i]. Channels
// beyond the pairs stay as they are. Whatever a model does to its frequencies (factors of Llama 3
// and LongRoPE, YaRN, a long base) is in the numbers.
struct RopeRotation {
  std::span<const float> frequencies;  // [rotated channels / 2] radians a position; empty: no rope
  RopePairs pairs = RopePairs::kInterleaved;
  float magnitude = 1.0F;  // YaRN's factor of rotated channels
};

// One layer of one sequence. Spans that the method did not ask for are empty. Where heads hold
// different tokens, each is scored by itself: kv_heads is 1, and first_head says which it is.
struct ScoreInputs {
  int layer = 0;
  int num_layers = 0;
  int first_head = 0;  // the number in its layer of the first kv head given
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
  // [kv_heads, num_tokens] summed over the observed queries and the group
  std::span<const float> probabilities;
  int observed_queries = 0;              // the newest ones, which `probabilities` were summed over
  std::span<const float> hidden_states;  // [num_tokens, hidden_dim]
  int hidden_dim = 0;
  float attention_scale = 0;  // of scores, usually 1 / sqrt(head_dim); needed beside queries
  RopeRotation rope;          // of this layer
  std::uint64_t seed = 0;
};

}  // namespace swiftkv
