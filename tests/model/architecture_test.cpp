// SPDX-License-Identifier: Apache-2.0
// Tests how metadata become decoder specs: defaults, what a family changes, and what is refused.
#include "model/architecture.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/gguf_file.h"
#include "support/raw_gguf.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"

namespace swiftkv {
namespace {

class ArchitectureTest : public testing::Test {
 protected:
  static RawGguf Tiny(const std::string& name) { return MakeTinyGguf(TinyModelNamed(name)); }

  Result<DecoderSpec> Describe(const RawGguf& gguf, int context = 0) {
    const std::string path = directory_.FilePath("model.gguf");
    EXPECT_TRUE(WriteBytes(path, SerializeGguf(gguf)).ok());
    auto file = GgufFile::Open(path);
    if (!file.ok()) return file.status();
    const auto name = (*file)->RequireString("general.architecture");
    const auto architecture = FindArchitecture(*name);
    if (!architecture.ok()) return architecture.status();
    DecodeLimits limits;
    limits.context = context;
    return (*architecture)->Describe(**file, limits);
  }

  // Expects an error of `code` whose message holds `part`.
  void ExpectRefused(const RawGguf& gguf, StatusCode code, const std::string& part) {
    const auto spec = Describe(gguf);
    EXPECT_EQ(spec.status().code(), code) << part << ": " << spec.status().message();
    EXPECT_NE(spec.status().message().find(part), std::string::npos) << spec.status().message();
  }

  TempDirectory directory_;
};

TEST_F(ArchitectureTest, NamesAreUniqueAndAnUnknownOneIsAnsweredWithTheList) {
  const auto unknown = FindArchitecture("mamba");
  EXPECT_EQ(unknown.status().code(), StatusCode::kUnsupported);
  for (const Architecture* row : AllArchitectures()) {
    EXPECT_EQ(*FindArchitecture(row->name()), row);
    EXPECT_NE(unknown.status().message().find(row->name()), std::string::npos);
    EXPECT_STRNE(row->description(), "");
  }
  EXPECT_NE(unknown.status().message().find("'mamba'"), std::string::npos);
}

TEST_F(ArchitectureTest, ShapesOfATinyLlamaAreRead) {
  const auto spec = Describe(Tiny("llama_gqa3_d64"));
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_EQ(spec->hidden_dim, 96);
  EXPECT_EQ(spec->head_dim, 64);
  EXPECT_EQ(spec->vocab_size, 256);
  EXPECT_FALSE(spec->tied_output);
  ASSERT_EQ(spec->layers.size(), 3U);
  EXPECT_EQ(spec->layers[2].num_heads, 6);
  EXPECT_EQ(spec->layers[2].kv_heads, 2);
  EXPECT_EQ(spec->layers[2].window, 0);
  EXPECT_EQ(spec->layers[2].rope.dims, 64);
  EXPECT_EQ(spec->layers[2].rope.layout, RopeLayout::kInterleaved);
  EXPECT_FLOAT_EQ(spec->attention_scale, 0.125F);
}

TEST_F(ArchitectureTest, MissingKeysComeFromTensorsOrDefaults) {
  const auto whole = Describe(Tiny("llama_mha_d64_tied"));
  ASSERT_TRUE(whole.ok());
  for (const char* key : {"llama.vocab_size", "llama.attention.head_count_kv",
                          "llama.attention.key_length", "llama.attention.value_length",
                          "llama.rope.dimension_count", "llama.feed_forward_length"}) {
    RawGguf gguf = Tiny("llama_mha_d64_tied");
    gguf.RemoveKey(key);
    const auto spec = Describe(gguf);
    ASSERT_TRUE(spec.ok()) << key << ": " << spec.status().message();
    EXPECT_EQ(spec->vocab_size, whole->vocab_size) << key;
    EXPECT_EQ(spec->head_dim, whole->head_dim) << key;
    EXPECT_EQ(spec->layers[1].kv_heads, whole->layers[1].kv_heads) << key;
    EXPECT_EQ(spec->layers[1].ffn_dim, whole->layers[1].ffn_dim) << key;
    EXPECT_EQ(spec->layers[1].rope, whole->layers[1].rope) << key;
  }
}

TEST_F(ArchitectureTest, KeysWithoutADefaultAreNamedWhenTheyAreMissing) {
  for (const char* key : {"llama.context_length", "llama.embedding_length", "llama.block_count",
                          "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"}) {
    RawGguf gguf = Tiny("llama_mha_d64_tied");
    gguf.RemoveKey(key);
    ExpectRefused(gguf, StatusCode::kDataLoss, key);
  }
}

TEST_F(ArchitectureTest, HeadsAndWidthsMayDifferFromLayerToLayer) {
  RawGguf gguf = Tiny("llama_gqa3_d64");
  gguf.SetKey(GgufI32sKey("llama.attention.head_count_kv", {1, 2, 3}));
  const auto spec = Describe(gguf);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_EQ(spec->layers[0].kv_heads, 1);
  EXPECT_EQ(spec->layers[2].kv_heads, 3);
  gguf.SetKey(GgufI32sKey("llama.attention.head_count_kv", {1, 2}));
  ExpectRefused(gguf, StatusCode::kDataLoss, "llama.attention.head_count_kv");
  gguf.SetKey(GgufI32sKey("llama.attention.head_count_kv", {1, 2, 4}));
  ExpectRefused(gguf, StatusCode::kDataLoss, "must divide the 6 query heads");
}

TEST_F(ArchitectureTest, SenselessNumbersAreRefusedWithTheirRange) {
  struct Case {
    const char* key;
    std::uint32_t value;
  };
  for (const Case& row : {Case{"llama.context_length", 0},
                          {"llama.context_length", 1U << 31},
                          {"llama.block_count", 0},
                          {"llama.block_count", 100000},
                          {"llama.attention.head_count", 0},
                          {"llama.attention.head_count_kv", 0},
                          {"llama.attention.key_length", 0},
                          {"llama.embedding_length", 0}}) {
    RawGguf gguf = Tiny("llama_mha_d64_tied");
    gguf.SetKey(GgufU32Key(row.key, row.value));
    ExpectRefused(gguf, StatusCode::kDataLoss, row.key);
  }
}

TEST_F(ArchitectureTest, FeaturesThatTheDecoderLacksAreRefusedByName) {
  const auto with = [](RawGgufKey key) {
    RawGguf gguf = Tiny("llama_mha_d64_tied");
    gguf.SetKey(std::move(key));
    return gguf;
  };
  ExpectRefused(with(GgufU32Key("llama.expert_count", 8)), StatusCode::kUnsupported,
                "'llama.expert_count' is 8");
  ExpectRefused(with(GgufF32Key("llama.attention.max_alibi_bias", 8.0F)), StatusCode::kUnsupported,
                "ALiBi");
  ExpectRefused(with(GgufBoolKey("llama.attention.causal", false)), StatusCode::kUnsupported,
                "causal");
  ExpectRefused(with(GgufU32Key("llama.attention.value_length", 32)), StatusCode::kUnsupported,
                "K has 64 channels, V 32");
  ExpectRefused(with(GgufStringKey("llama.rope.scaling.type", "dynamic")), StatusCode::kUnsupported,
                "none, linear, yarn, longrope");
  ExpectRefused(with(GgufU32Key("llama.rope.dimension_count", 32)), StatusCode::kUnsupported,
                "llama.rope.dimension_count");
}

TEST_F(ArchitectureTest, LinearScalingStretchesPositionsAndNoneIgnoresTheFactor) {
  RawGguf gguf = Tiny("llama_d80_linear");
  EXPECT_FLOAT_EQ(Describe(gguf)->layers[0].rope.frequency_scale, 0.25F);
  gguf.SetKey(GgufStringKey("llama.rope.scaling.type", "none"));
  EXPECT_FLOAT_EQ(Describe(gguf)->layers[0].rope.frequency_scale, 1.0F);
}

// ggml multiplies by 1 + 0.1 ln(factor) itself where it extrapolates, so 1 asks for just that.
TEST_F(ArchitectureTest, YarnAsksForItsRampAndItsOwnAttentionFactor) {
  RawGguf gguf = Tiny("llama_d96_yarn");
  const auto spec = Describe(gguf);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  const RopeSpec& rope = spec->layers[0].rope;
  EXPECT_EQ(rope.scaling, RopeScaling::kYarn);
  EXPECT_EQ(rope.original_context, 128);
  EXPECT_FLOAT_EQ(rope.frequency_scale, 0.125F);
  EXPECT_FLOAT_EQ(rope.extrapolation_factor, 1.0F);
  EXPECT_FLOAT_EQ(rope.attention_factor, 1.0F);
  gguf.SetKey(GgufF32Key("llama.rope.scaling.attn_factor", 1.5F));
  EXPECT_FLOAT_EQ(Describe(gguf)->layers[0].rope.attention_factor, 1.5F);
}

TEST_F(ArchitectureTest, Llama3FactorsAreFound) {
  const auto spec = Describe(Tiny("llama_gqa4_d128_factors"));
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_EQ(spec->layers[1].rope_factors_tensor, "rope_freqs.weight");
  EXPECT_FLOAT_EQ(spec->layers[1].rope.base, 500000.0F);
}

TEST_F(ArchitectureTest, LongRopePicksItsFactorsByTheContext) {
  const RawGguf gguf = Tiny("phi3_d96_longrope_long");
  EXPECT_EQ(Describe(gguf, 256)->layers[0].rope_factors_tensor, "rope_factors_short.weight");
  EXPECT_EQ(Describe(gguf, 257)->layers[0].rope_factors_tensor, "rope_factors_long.weight");
  EXPECT_EQ(Describe(gguf)->layers[0].rope_factors_tensor, "rope_factors_long.weight");
  EXPECT_FLOAT_EQ(Describe(gguf)->layers[0].rope.attention_factor, 1.19F);
  RawGguf without = gguf;
  without.RemoveTensor("rope_factors_long.weight");
  ExpectRefused(without, StatusCode::kDataLoss, "rope_factors_long.weight");
}

TEST_F(ArchitectureTest, GemmaAlternatesWindowedAndGlobalLayers) {
  RawGguf gguf = Tiny("gemma3_d64_linear");
  const auto spec = Describe(gguf);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_TRUE(spec->qk_norm);
  EXPECT_TRUE(spec->post_norms);
  EXPECT_EQ(spec->activation, Activation::kGelu);
  EXPECT_FLOAT_EQ(spec->embedding_scale, 8.0F);
  for (int i = 0; i < 8; ++i) {
    const DecoderLayerSpec& layer = spec->layers[static_cast<std::size_t>(i)];
    const bool global = i == 5;
    EXPECT_EQ(layer.window, global ? 0 : 32) << i;
    EXPECT_FLOAT_EQ(layer.rope.base, global ? 1e6F : 10000.0F) << i;
    EXPECT_FLOAT_EQ(layer.rope.frequency_scale, global ? 0.125F : 1.0F) << i;
  }
  gguf.SetKey(GgufU32Key("gemma3.attention.sliding_window_pattern", 2));
  EXPECT_EQ(Describe(gguf)->layers[0].window, 32);
  EXPECT_EQ(Describe(gguf)->layers[1].window, 0);
  gguf.SetKey(GgufI32sKey("gemma3.attention.sliding_window_pattern", {0, 0, 1, 1, 0, 0, 1, 0}));
  EXPECT_EQ(Describe(gguf)->layers[1].window, 0);
  EXPECT_EQ(Describe(gguf)->layers[6].window, 32);
  gguf.RemoveKey("gemma3.attention.sliding_window");
  EXPECT_EQ(Describe(gguf)->layers[6].window, 0);
}

TEST_F(ArchitectureTest, AContextBeyondTheModelsIsRefused) {
  const RawGguf gguf = Tiny("llama_mha_d64_tied");
  EXPECT_TRUE(Describe(gguf, 1024).ok());
  const auto spec = Describe(gguf, 1025);
  EXPECT_EQ(spec.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(spec.status().message().find("[1, 1024]"), std::string::npos);
}

}  // namespace
}  // namespace swiftkv
