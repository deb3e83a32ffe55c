// SPDX-License-Identifier: Apache-2.0
// Describes a dense decoder as plain data: everything in which the supported families differ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace swiftkv {

enum class RopeLayout : std::uint8_t {
  kInterleaved,  // pairs (2i, 2i+1): llama GGUFs
  kSplitHalf,    // pairs (i, i + dims/2): qwen, gemma, phi
};

enum class RopeScaling : std::uint8_t { kNone, kLinear, kYarn, kLongRope };

enum class Activation : std::uint8_t { kSilu, kGelu };

// Rotary embedding of one kind of layer (Su et al. 2021; YaRN: Peng et al. 2023; LongRoPE: Ding et
// al. 2024).
struct RopeSpec {
  RopeLayout layout = RopeLayout::kInterleaved;
  int dims = 0;  // rotated channels of a head
  float base = 10000.0F;
  float frequency_scale = 1.0F;  // 1 / scaling factor
  RopeScaling scaling = RopeScaling::kNone;
  float extrapolation_factor = 0.0F;  // YaRN's ramp: 1 with kYarn
  float attention_factor = 1.0F;
  float beta_fast = 32.0F;
  float beta_slow = 1.0F;
  int original_context = 0;  // positions that the model was trained on before scaling

  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

struct DecoderLayerSpec {
  int num_heads = 0;
  int kv_heads = 0;
  int ffn_dim = 0;
  int window = 0;  // 0: full attention; else tokens seen, itself included
  RopeSpec rope;
  std::string rope_factors_tensor;  // name of an f32 [dims/2] tensor, empty for none
};

struct DecoderSpec {
  std::string architecture;  // GGUF's general.architecture
  std::string name;          // general.name, for people
  int hidden_dim = 0;
  int head_dim = 0;
  int vocab_size = 0;
  int context_length = 0;  // the model's maximum
  float rms_epsilon = 1e-5F;
  float attention_scale = 0.0F;
  float attention_softcap = 0.0F;
  float logit_softcap = 0.0F;
  float logit_scale = 1.0F;
  float embedding_scale = 1.0F;
  Activation activation = Activation::kSilu;
  bool qk_norm = false;        // RMS norm of Q and K rows of each head before rope
  bool fused_qkv = false;      // one attn_qkv matrix
  bool fused_gate_up = false;  // ffn_up holds gate and up
  bool post_norms = false;     // norms after attention and after the feed-forward
  bool tied_output = false;    // no output.weight: the token embedding is used
  std::vector<DecoderLayerSpec> layers;
};

}  // namespace swiftkv
