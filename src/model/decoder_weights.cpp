// SPDX-License-Identifier: Apache-2.0
// Implements the list of a decoder's weights.
#include "model/decoder_weights.h"

#include "base/check.h"

namespace swiftkv {
namespace {

class SlotList {
 public:
  void Vector(const std::string& name, std::int64_t size, ggml_tensor** target) {
    slots_.push_back({name + ".weight", WeightUse::kVector, size, 1, true, target});
  }

  void Embedding(const std::string& name, std::int64_t columns, std::int64_t rows,
                 ggml_tensor** target) {
    slots_.push_back({name + ".weight", WeightUse::kEmbedding, columns, rows, true, target});
  }

  void Matrix(const std::string& name, std::int64_t columns, std::int64_t rows, Linear* target) {
    slots_.push_back({name + ".weight", WeightUse::kMatrix, columns, rows, true, &target->weight});
    slots_.push_back({name + ".bias", WeightUse::kVector, rows, 1, false, &target->bias});
  }

  void Exact(const std::string& name, std::int64_t size, ggml_tensor** target) {
    slots_.push_back({name, WeightUse::kVector, size, 1, true, target});
  }

  std::vector<WeightSlot> Take() { return std::move(slots_); }

 private:
  std::vector<WeightSlot> slots_;
};

void ListAttention(const DecoderSpec& spec, const DecoderLayerSpec& layer, const std::string& block,
                   LayerWeights* weights, SlotList* slots) {
  const std::int64_t hidden = spec.hidden_dim;
  const std::int64_t query_rows = static_cast<std::int64_t>(layer.num_heads) * spec.head_dim;
  const std::int64_t kv_rows = static_cast<std::int64_t>(layer.kv_heads) * spec.head_dim;
  slots->Vector(block + "attn_norm", hidden, &weights->attention_norm);
  if (spec.fused_qkv) {
    slots->Matrix(block + "attn_qkv", hidden, query_rows + 2 * kv_rows, &weights->fused_qkv);
  } else {
    slots->Matrix(block + "attn_q", hidden, query_rows, &weights->query);
    slots->Matrix(block + "attn_k", hidden, kv_rows, &weights->key);
    slots->Matrix(block + "attn_v", hidden, kv_rows, &weights->value);
  }
  if (spec.qk_norm) {
    slots->Vector(block + "attn_q_norm", spec.head_dim, &weights->query_norm);
    slots->Vector(block + "attn_k_norm", spec.head_dim, &weights->key_norm);
  }
  if (!layer.rope_factors_tensor.empty()) {
    slots->Exact(layer.rope_factors_tensor, layer.rope.dims / 2, &weights->rope_factors);
  }
  slots->Matrix(block + "attn_output", query_rows, hidden, &weights->attention_output);
  if (spec.post_norms) {
    slots->Vector(block + "post_attention_norm", hidden, &weights->attention_post_norm);
  }
}

void ListFeedForward(const DecoderSpec& spec, const DecoderLayerSpec& layer,
                     const std::string& block, LayerWeights* weights, SlotList* slots) {
  const std::int64_t hidden = spec.hidden_dim;
  slots->Vector(block + "ffn_norm", hidden, &weights->ffn_norm);
  if (!spec.fused_gate_up) slots->Matrix(block + "ffn_gate", hidden, layer.ffn_dim, &weights->gate);
  const std::int64_t up_rows = static_cast<std::int64_t>(layer.ffn_dim) * (spec.fused_gate_up + 1);
  slots->Matrix(block + "ffn_up", hidden, up_rows, &weights->up);
  slots->Matrix(block + "ffn_down", layer.ffn_dim, hidden, &weights->down);
  if (spec.post_norms) slots->Vector(block + "post_ffw_norm", hidden, &weights->ffn_post_norm);
}

}  // namespace

std::vector<WeightSlot> ListWeights(const DecoderSpec& spec, DecoderWeights* weights) {
  SlotList slots;
  weights->layers.assign(spec.layers.size(), {});
  slots.Embedding("token_embd", spec.hidden_dim, spec.vocab_size, &weights->token_embedding);
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    ListAttention(spec, spec.layers[i], block, &weights->layers[i], &slots);
    ListFeedForward(spec, spec.layers[i], block, &weights->layers[i], &slots);
  }
  slots.Vector("output_norm", spec.hidden_dim, &weights->output_norm);
  slots.Matrix(spec.tied_output ? "token_embd" : "output", spec.hidden_dim, spec.vocab_size,
               &weights->output);
  return slots.Take();
}

std::vector<const ggml_tensor*> ListMatrices(const DecoderWeights& weights) {
  std::vector<const ggml_tensor*> matrices;
  const auto add = [&](const Linear& linear) {
    if (linear.weight != nullptr) matrices.push_back(linear.weight);
  };
  for (const LayerWeights& layer : weights.layers) {
    for (const Linear* linear : {&layer.query, &layer.key, &layer.value, &layer.fused_qkv,
                                 &layer.attention_output, &layer.gate, &layer.up, &layer.down}) {
      add(*linear);
    }
  }
  add(weights.output);
  return matrices;
}

bool IsIgnorableTensor(const std::string& name) {
  // LongRoPE carries two tables of which a context needs one; old converters wrote rope's
  // frequencies out, which are computed here.
  if (name == "rope_factors_long.weight" || name == "rope_factors_short.weight") return true;
  return name.find(".attn_rot_embd") != std::string::npos ||
         name.find(".rotary_emb.inv_freq") != std::string::npos;
}

}  // namespace swiftkv
