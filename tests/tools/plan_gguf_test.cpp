// SPDX-License-Identifier: Apache-2.0
// Tests planning from a GGUF's metadata, of families that run here and of others.
#include "tools/plan_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/tiny_model.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;

class PlanGgufTest : public testing::Test {
 protected:
  Result<PlanModel> Read(const RawGguf& gguf) const {
    const std::string path = directory_.FilePath("model.gguf");
    EXPECT_TRUE(WriteBytes(path, SerializeGguf(gguf)).ok());
    return ReadPlanGguf(path);
  }

  static std::vector<int> Windows(const PlanModel& model) {
    std::vector<int> windows;
    for (const ShapedLayer& layer : model.layers) windows.push_back(layer.stored.window);
    return windows;
  }

  // A family that nothing here runs, with the keys that all have.
  static RawGguf Foreign(const std::string& architecture) {
    RawGguf gguf;
    gguf.SetKey(GgufStringKey("general.architecture", architecture));
    gguf.SetKey(GgufU32Key(architecture + ".context_length", 4096));
    gguf.SetKey(GgufU32Key(architecture + ".embedding_length", 256));
    gguf.SetKey(GgufU32Key(architecture + ".block_count", 4));
    gguf.SetKey(GgufU32Key(architecture + ".attention.head_count", 8));
    gguf.SetKey(GgufU32Key(architecture + ".attention.head_count_kv", 2));
    return gguf;
  }

  TempDirectory directory_;
};

TEST_F(PlanGgufTest, EveryTinyFamilyIsReadAsItWasMade) {
  for (const TinyModel& model : TinyModels()) {
    SCOPED_TRACE(model.name);
    const PlanModel plan = ReadPlanGguf(WriteTinyGguf(model, directory_.path()).value()).value();
    EXPECT_EQ(plan.note, "");
    ASSERT_EQ(plan.layers.size(), static_cast<std::size_t>(model.shape.layers));
    EXPECT_EQ(plan.layers[0].stored.key_dim, model.shape.head_dim);
    EXPECT_EQ(plan.layers[0].stored.kv_heads, model.shape.kv_heads);
    EXPECT_EQ(plan.layers[0].unshared.kv_heads, model.shape.query_heads);
    EXPECT_EQ(plan.context, model.shape.context);
    EXPECT_EQ(plan.weights_bytes, plan.parameters * sizeof(float));
    EXPECT_EQ(plan.weights_type, "f32");
  }
}

TEST_F(PlanGgufTest, FamiliesThatDoNotRunArePlannedAndSaidToBeSo) {
  const PlanModel model = Read(Foreign("gpt-oss")).value();
  EXPECT_THAT(model.note, HasSubstr("does not run"));
  EXPECT_EQ(model.layers[0].stored, (PlanLayer{2, 32, 32, 0}));
  EXPECT_EQ(model.layers[0].unshared, (PlanLayer{8, 32, 32, 0}));
}

TEST_F(PlanGgufTest, WindowsFollowThePatternOfTheFileOrTheFamily) {
  RawGguf gguf = Foreign("gpt-oss");
  gguf.SetKey(GgufU32Key("gpt-oss.attention.sliding_window", 128));
  EXPECT_EQ(Windows(Read(gguf).value()), (std::vector<int>{128, 0, 128, 0}));
  gguf.SetKey(GgufI32sKey("gpt-oss.attention.sliding_window_pattern", {0, 1, 1, 0}));
  EXPECT_EQ(Windows(Read(gguf).value()), (std::vector<int>{0, 128, 128, 0}));
  gguf.SetKey(GgufU32Key("gpt-oss.attention.sliding_window_pattern", 4));
  EXPECT_EQ(Windows(Read(gguf).value()), (std::vector<int>{128, 128, 128, 0}));
  gguf.SetKey(GgufU32Key("gpt-oss.attention.key_length_swa", 64));
  const PlanModel model = Read(gguf).value();
  EXPECT_EQ(model.layers[0].stored.key_dim, 64);
  EXPECT_EQ(model.layers[3].stored.key_dim, 32);

  // Nobody knows which layers have it: everything is kept, which is never too little.
  RawGguf unknown = Foreign("novel");
  unknown.SetKey(GgufU32Key("novel.attention.sliding_window", 128));
  EXPECT_EQ(Windows(Read(unknown).value()), (std::vector<int>{0, 0, 0, 0}));
}

TEST_F(PlanGgufTest, LatentAttentionIsReadInBothWaysThatFilesSayIt) {
  RawGguf gguf = Foreign("deepseek2");
  gguf.SetKey(GgufU32Key("deepseek2.attention.kv_lora_rank", 64));
  gguf.SetKey(GgufU32Key("deepseek2.rope.dimension_count", 16));
  gguf.SetKey(GgufU32Key("deepseek2.attention.key_length", 48));
  gguf.SetKey(GgufU32Key("deepseek2.attention.value_length", 32));
  gguf.SetKey(GgufU32Key("deepseek2.nextn_predict_layers", 1));
  const PlanModel older = Read(gguf).value();
  ASSERT_EQ(older.layers.size(), 3U);
  EXPECT_EQ(older.layers[0].stored, (PlanLayer{1, 80, 0, 0}));
  EXPECT_EQ(older.layers[0].unshared, (PlanLayer{8, 48, 32, 0}));
  gguf.SetKey(GgufU32Key("deepseek2.attention.key_length", 80));
  gguf.SetKey(GgufU32Key("deepseek2.attention.value_length", 64));
  gguf.SetKey(GgufU32Key("deepseek2.attention.key_length_mla", 48));
  gguf.SetKey(GgufU32Key("deepseek2.attention.value_length_mla", 32));
  EXPECT_EQ(Read(gguf).value().layers, older.layers);
}

TEST_F(PlanGgufTest, EveryLayerMayHaveHeadsOfItsOwn) {
  RawGguf gguf = Foreign("openelm");
  gguf.SetKey(GgufI32sKey("openelm.attention.head_count_kv", {1, 2, 4, 8}));
  const PlanModel model = Read(gguf).value();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(model.layers[static_cast<std::size_t>(i)].stored.kv_heads, 1 << i);
  }
}

TEST_F(PlanGgufTest, OtherMemoriesAndSenselessNumbersAreRefusedByTheirKey) {
  const auto expect_refused = [&](const RawGgufKey& key) {
    RawGguf gguf = Foreign("novel");
    gguf.SetKey(key);
    const auto model = Read(gguf);
    ASSERT_FALSE(model.ok()) << key.name;
    EXPECT_THAT(model.status().message(), HasSubstr(key.name));
  };
  for (const char* name : {"ssm.state_size", "wkv.head_size", "full_attention_interval",
                           "attention.indexer.top_k", "attention.shared_kv_layers"}) {
    expect_refused(GgufU32Key(std::string("novel.") + name, 16));
  }
  for (const char* name :
       {"block_count", "context_length", "embedding_length", "attention.head_count",
        "attention.head_count_kv", "attention.key_length", "attention.sliding_window"}) {
    expect_refused(GgufU32Key(std::string("novel.") + name, 4000000000U));
    expect_refused(GgufStringKey(std::string("novel.") + name, "many"));
  }
  RawGguf headless = Foreign("novel");
  headless.RemoveKey("novel.attention.head_count");
  EXPECT_THAT(Read(headless).status().message(), HasSubstr("novel.attention.head_count"));
}

}  // namespace
}  // namespace swiftkv
