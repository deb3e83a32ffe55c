// SPDX-License-Identifier: Apache-2.0
// Proves that the bounds can tell: each property of a family, when wrong, moves the logits past its
// bound.
//
// Both sides are libllama here; one reads the model with a single property changed, as a decoder
// that overlooks the property would.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "support/conformance_bounds.h"
#include "support/llama_oracle.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/token_sequence.h"

namespace swiftkv {
namespace {

struct Oversight {
  std::string name;
  std::string model;  // a row of TinyModels()
  std::function<void(RawGguf*)> overlook;
};

std::ostream& operator<<(std::ostream& stream, const Oversight& oversight) {
  return stream << oversight.name;
}

// Sets every element of the tensors whose names end in `suffix`.
std::function<void(RawGguf*)> Fill(const std::string& suffix, float value) {
  return [suffix, value](RawGguf* gguf) {
    int filled = 0;
    for (RawGgufTensor& tensor : gguf->tensors) {
      if (!tensor.name.ends_with(suffix)) continue;
      tensor.data = GgufBytes(std::vector<float>(tensor.data.size() / sizeof(float), value));
      ++filled;
    }
    EXPECT_GT(filled, 0) << suffix;
  };
}

std::function<void(RawGguf*)> Set(const RawGgufKey& key) {
  return [key](RawGguf* gguf) { gguf->SetKey(key); };
}

std::function<void(RawGguf*)> Remove(const std::string& key) {
  return [key](RawGguf* gguf) { gguf->RemoveKey(key); };
}

// The other order of factors: what a context on the other side of the original one would take.
void SwapLongRopeFactors(RawGguf* gguf) {
  std::swap(gguf->Tensor("rope_factors_long.weight").data,
            gguf->Tensor("rope_factors_short.weight").data);
}

// Exchanges the two KV heads, as a wrong mapping of query heads would.
void SwapKvHeads(RawGguf* gguf) {
  std::string& keys = gguf->Tensor("blk.0.attn_k.weight").data;
  keys = keys.substr(keys.size() / 2) + keys.substr(0, keys.size() / 2);
}

std::vector<Oversight> Oversights() {
  return {
      {"kv_heads", "llama_gqa3_d64", SwapKvHeads},
      {"rms_epsilon", "llama_mha_d64_tied",
       Set(GgufF32Key("llama.attention.layer_norm_rms_epsilon", 1e-6F))},
      {"rope_base", "llama_gqa3_d64", Set(GgufF32Key("llama.rope.freq_base", 10100.0F))},
      {"rope_factors", "llama_gqa4_d128_factors", Fill("rope_freqs.weight", 1.0F)},
      {"linear_scaling", "llama_d80_linear", Remove("llama.rope.scaling.factor")},
      {"yarn_scaling", "llama_d96_yarn", Set(GgufStringKey("llama.rope.scaling.type", "linear"))},
      {"yarn_original_context", "llama_d96_yarn",
       Set(GgufU32Key("llama.rope.scaling.original_context_length", 160))},
      {"query_bias", "qwen2_d64_tied", Fill("attn_q.bias", 0.0F)},
      {"key_bias", "qwen2_d64_tied", Fill("attn_k.bias", 0.0F)},
      {"value_bias", "qwen2_d64_tied", Fill("attn_v.bias", 0.0F)},
      {"query_norm", "qwen3_d128", Fill("attn_q_norm.weight", 1.0F)},
      {"key_norm", "qwen3_d128", Fill("attn_k_norm.weight", 1.0F)},
      {"window_one_longer", "gemma3_d64_linear",
       Set(GgufU32Key("gemma3.attention.sliding_window", 33))},
      {"window_one_shorter", "gemma3_d256_tied",
       Set(GgufU32Key("gemma3.attention.sliding_window", 31))},
      {"window_pattern", "gemma3_d64_linear",
       Set(GgufU32Key("gemma3.attention.sliding_window_pattern", 5))},
      {"window_base", "gemma3_d256_tied", Set(GgufF32Key("gemma3.rope.freq_base_swa", 10100.0F))},
      {"global_scaling", "gemma3_d64_linear", Remove("gemma3.rope.scaling.factor")},
      {"attention_post_norm", "gemma3_d256_tied", Fill("post_attention_norm.weight", 1.0F)},
      {"feed_forward_post_norm", "gemma3_d256_tied", Fill("post_ffw_norm.weight", 1.0F)},
      {"longrope_long", "phi3_d96_longrope_long", SwapLongRopeFactors},
      {"longrope_short", "phi3_d64_longrope_short", SwapLongRopeFactors},
      {"longrope_attention_factor", "phi3_d96_longrope_long",
       Remove("phi3.rope.scaling.attn_factor")},
  };
}

class OversightTest : public testing::TestWithParam<Oversight> {};

TEST_P(OversightTest, MovesLogitsPastTheF32Bound) {
  const TinyModel& model = TinyModelNamed(GetParam().model);
  RawGguf changed = MakeTinyGguf(model);
  GetParam().overlook(&changed);
  const TempDirectory directory;
  Result<std::string> right = WriteTinyGguf(model, directory.path());
  const std::string wrong = directory.FilePath("wrong.gguf");
  ASSERT_TRUE(right.ok() && WriteBytes(wrong, SerializeGguf(changed)).ok());
  const auto tokens = RandomTokens(200, model.shape.vocabulary, model.seed);
  auto one = LlamaOracle::Load(*right, {.context = model.open_context});
  auto other = LlamaOracle::Load(wrong, {.context = model.open_context});
  ASSERT_TRUE(one.ok()) << one.status().message();
  ASSERT_TRUE(other.ok()) << other.status().message();
  const float moved =
      MaxAbsDifference((*one)->Append(tokens)->values, (*other)->Append(tokens)->values);
  RecordProperty("moved", std::to_string(moved));
  EXPECT_GT(moved, 2.0F * LogitBound(model.family, "f32"));
}

INSTANTIATE_TEST_SUITE_P(Properties, OversightTest, testing::ValuesIn(Oversights()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace swiftkv
