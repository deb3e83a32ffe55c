// SPDX-License-Identifier: Apache-2.0
// Names the weights of a decoder and the tensors of a file that hold them.
//
// The tensors belong to a WeightStore. Matrices are [rows, columns] row-major in memory, columns
// being the input's channels; GGUF writes that shape as columns x rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/decoder_spec.h"

struct ggml_tensor;

namespace swiftkv {

struct Linear {
  ggml_tensor* weight = nullptr;  // [outputs, inputs]
  ggml_tensor* bias = nullptr;    // [outputs] f32, null for none
};

struct LayerWeights {
  ggml_tensor* attention_norm = nullptr;  // [hidden_dim] f32
  Linear query;                           // or all three in `fused_qkv`
  Linear key;
  Linear value;
  Linear fused_qkv;                            // [(heads + 2 kv_heads) * head_dim, hidden_dim]
  ggml_tensor* query_norm = nullptr;           // [head_dim] f32, null without qk_norm
  ggml_tensor* key_norm = nullptr;             // likewise
  ggml_tensor* rope_factors = nullptr;         // [rope.dims / 2] f32, null for none
  Linear attention_output;                     // [hidden_dim, heads * head_dim]
  ggml_tensor* attention_post_norm = nullptr;  // [hidden_dim] f32, null without post_norms
  ggml_tensor* ffn_norm = nullptr;             // [hidden_dim] f32
  Linear gate;                                 // [ffn_dim, hidden_dim], unused with fused_gate_up
  Linear up;                                   // [ffn_dim or 2 ffn_dim, hidden_dim]
  Linear down;                                 // [hidden_dim, ffn_dim]
  ggml_tensor* ffn_post_norm = nullptr;        // [hidden_dim] f32, null without post_norms
};

struct DecoderWeights {
  ggml_tensor* token_embedding = nullptr;  // [vocab_size, hidden_dim]
  ggml_tensor* output_norm = nullptr;      // [hidden_dim] f32
  Linear output;                           // [vocab_size, hidden_dim]; the embedding where tied
  std::vector<LayerWeights> layers;
};

enum class WeightUse : std::uint8_t {
  kMatrix,     // multiplied
  kEmbedding,  // rows are picked
  kVector,     // added or multiplied element by element; kept as f32
};

// One tensor that the decoder wants of the file, and where its handle goes.
struct WeightSlot {
  std::string name;
  WeightUse use = WeightUse::kMatrix;
  std::int64_t columns = 0;
  std::int64_t rows = 1;
  bool required = true;
  ggml_tensor** target = nullptr;
};

// Lists everything that a decoder of this spec computes with, in the order of use; sizes
// `weights->layers`. Biases are optional for every matrix.
std::vector<WeightSlot> ListWeights(const DecoderSpec& spec, DecoderWeights* weights);

// Lists the matrices that activations are multiplied by, in the order of use, once loaded.
std::vector<const ggml_tensor*> ListMatrices(const DecoderWeights& weights);

// Returns whether `name` is a tensor that some writers add and no decoder needs.
bool IsIgnorableTensor(const std::string& name);

}  // namespace swiftkv
