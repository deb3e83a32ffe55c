// SPDX-License-Identifier: Apache-2.0
// Draws the weights of tiny models from normal distributions of chosen widths.
#include "support/tiny_tensors.h"

#include <cmath>
#include <numbers>

namespace swiftkv {
namespace {

// Widths relative to 1/sqrt(fan-in), so that a unit-variance input gives an output of this
// deviation.
constexpr float kQueryKeyGain = 1.1F;  // attention scores of deviation ~1.2: peaked, not one-hot
constexpr float kValueGain = 1.0F;
constexpr float kLogitGain = 0.5F;
// Deviation of the residual stream where it starts and, about, of what each branch adds to it.
constexpr float kResidualDeviation = 0.5F;
constexpr float kQueryKeyBiasDeviation = 0.5F;
// Small: a constant survives the averaging of values, and would drown what the tokens say.
constexpr float kValueBiasDeviation = 0.1F;
constexpr float kNormDeviation = 0.1F;

// Produces a well-mixed 64-bit stream (the splitmix64 recurrence).
class BitStream {
 public:
  explicit BitStream(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31U);
  }

  // Returns a number in (0, 1].
  double NextUnit() { return (static_cast<double>(Next() >> 11U) + 1.0) * 0x1p-53; }

 private:
  uint64_t state_;
};

uint64_t HashName(const std::string& name, uint64_t seed) {
  uint64_t hash = 0xCBF29CE484222325ULL ^ seed;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return hash;
}

TinyTensor Matrix(const std::string& name, int64_t columns, int64_t rows, float gain) {
  return {name, {columns, rows}, 0.0F, gain / std::sqrt(static_cast<float>(columns)), {}};
}

TinyTensor Norm(const std::string& name, int64_t channels, float mean = 1.0F) {
  return {name, {channels}, mean, kNormDeviation, {}};
}

TinyTensor Bias(const std::string& name, int64_t channels, float deviation) {
  return {name, {channels}, 0.0F, deviation, {}};
}

// Returns the deviation of the embedding's elements. A tied one is the output matrix too, which
// fixes its width; gemma3 scales it by sqrt(channels) on the way in.
float EmbeddingDeviation(const TinyModel& model) {
  if (!model.shape.tied_output) return kResidualDeviation;
  return kLogitGain / std::sqrt(static_cast<float>(model.shape.embedding));
}

// Returns the gain of the matrices that write to the residual stream. A norm behind them (gemma3)
// undoes it.
float BranchGain(const TinyModel& model) {
  return model.family == TinyFamily::kGemma3 ? kValueGain : EmbeddingDeviation(model);
}

// The shape of Llama 3's factors: fast channels keep their speed, slow ones turn 8 times slower.
TinyTensor RopeFactors(const std::string& name, int head_dim, float last) {
  const int pairs = head_dim / 2;
  TinyTensor tensor = {name, {pairs}, 0.0F, 0.0F, {}};
  for (int i = 0; i < pairs; ++i) {
    const float t = static_cast<float>(i) / static_cast<float>(pairs - 1);
    tensor.values.push_back(1.0F + (last - 1.0F) * t * t);
  }
  return tensor;
}

void AddRopeFactors(const TinyModel& model, std::vector<TinyTensor>* tensors) {
  const int head_dim = model.shape.head_dim;
  if (model.rope.scaling == TinyRopeScaling::kFactors) {
    tensors->push_back(RopeFactors("rope_freqs.weight", head_dim, 8.0F));
  }
  if (model.rope.scaling == TinyRopeScaling::kLongRope) {
    tensors->push_back(RopeFactors("rope_factors_long.weight", head_dim, 24.0F));
    tensors->push_back(RopeFactors("rope_factors_short.weight", head_dim, 1.5F));
  }
}

void AddAttention(const TinyModel& model, const std::string& block,
                  std::vector<TinyTensor>* tensors) {
  const TinyShape& s = model.shape;
  const int64_t query_rows = int64_t{s.query_heads} * s.head_dim;
  const int64_t kv_rows = int64_t{s.kv_heads} * s.head_dim;
  tensors->push_back(Norm(block + "attn_norm.weight", s.embedding));
  if (model.family == TinyFamily::kPhi3) {
    tensors->push_back(
        Matrix(block + "attn_qkv.weight", s.embedding, query_rows + 2 * kv_rows, kQueryKeyGain));
  } else {
    tensors->push_back(Matrix(block + "attn_q.weight", s.embedding, query_rows, kQueryKeyGain));
    tensors->push_back(Matrix(block + "attn_k.weight", s.embedding, kv_rows, kQueryKeyGain));
    tensors->push_back(Matrix(block + "attn_v.weight", s.embedding, kv_rows, kValueGain));
  }
  if (model.family == TinyFamily::kQwen2) {
    tensors->push_back(Bias(block + "attn_q.bias", query_rows, kQueryKeyBiasDeviation));
    tensors->push_back(Bias(block + "attn_k.bias", kv_rows, kQueryKeyBiasDeviation));
    tensors->push_back(Bias(block + "attn_v.bias", kv_rows, kValueBiasDeviation));
  }
  if (model.family == TinyFamily::kQwen3 || model.family == TinyFamily::kGemma3) {
    tensors->push_back(Norm(block + "attn_q_norm.weight", s.head_dim, kQueryKeyGain));
    tensors->push_back(Norm(block + "attn_k_norm.weight", s.head_dim, kQueryKeyGain));
  }
  tensors->push_back(
      Matrix(block + "attn_output.weight", query_rows, s.embedding, BranchGain(model)));
  if (model.family == TinyFamily::kGemma3) {
    tensors->push_back(Norm(block + "post_attention_norm.weight", s.embedding, kResidualDeviation));
  }
}

void AddFeedForward(const TinyModel& model, const std::string& block,
                    std::vector<TinyTensor>* tensors) {
  const TinyShape& s = model.shape;
  tensors->push_back(Norm(block + "ffn_norm.weight", s.embedding));
  if (model.family == TinyFamily::kPhi3) {
    tensors->push_back(
        Matrix(block + "ffn_up.weight", s.embedding, 2 * int64_t{s.feed_forward}, kValueGain));
  } else {
    tensors->push_back(Matrix(block + "ffn_gate.weight", s.embedding, s.feed_forward, kValueGain));
    tensors->push_back(Matrix(block + "ffn_up.weight", s.embedding, s.feed_forward, kValueGain));
  }
  tensors->push_back(
      Matrix(block + "ffn_down.weight", s.feed_forward, s.embedding, BranchGain(model)));
  if (model.family == TinyFamily::kGemma3) {
    tensors->push_back(Norm(block + "post_ffw_norm.weight", s.embedding, kResidualDeviation));
  }
}

}  // namespace

std::vector<TinyTensor> TinyTensors(const TinyModel& model, int vocabulary) {
  const TinyShape& s = model.shape;
  std::vector<TinyTensor> tensors;
  tensors.push_back(
      {"token_embd.weight", {s.embedding, vocabulary}, 0.0F, EmbeddingDeviation(model), {}});
  tensors.push_back(Norm("output_norm.weight", s.embedding));
  if (!s.tied_output) {
    tensors.push_back(Matrix("output.weight", s.embedding, vocabulary, kLogitGain));
  }
  AddRopeFactors(model, &tensors);
  for (int layer = 0; layer < s.layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    AddAttention(model, block, &tensors);
    AddFeedForward(model, block, &tensors);
  }
  return tensors;
}

std::vector<float> TinyTensorValues(const TinyTensor& tensor, uint64_t seed) {
  if (!tensor.values.empty()) return tensor.values;
  int64_t count = 1;
  for (const int64_t extent : tensor.shape) count *= extent;
  BitStream bits(HashName(tensor.name, seed));
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    // Box-Muller, one value of the pair: the standard library's distributions differ between its
    // makers.
    const double radius = std::sqrt(-2.0 * std::log(bits.NextUnit()));
    const double angle = 2.0 * std::numbers::pi * bits.NextUnit();
    value = tensor.mean + tensor.deviation * static_cast<float>(radius * std::cos(angle));
  }
  return values;
}

}  // namespace swiftkv
