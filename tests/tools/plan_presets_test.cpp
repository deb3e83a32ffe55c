// SPDX-License-Identifier: Apache-2.0
// Holds the built-in shapes to the published numbers of parameters, and to bytes known by heart.
#include "tools/plan_presets.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "engine/kv_plan.h"
#include "formats/page_format_table.h"

namespace swiftkv {
namespace {

std::uint64_t TokenBytesOfF16(const PlanShape& shape) {
  std::vector<PlanLayer> layers;
  for (const ShapedLayer& layer : ExpandLayers(shape)) layers.push_back(layer.stored);
  return KvPlan::Make(layers, FindPageFormat("f16").value()).value().TokenBytes();
}

int WindowedLayers(const char* preset) {
  int count = 0;
  for (const ShapedLayer& layer : ExpandLayers(*FindPlanPreset(preset).value())) {
    if (layer.stored.window > 0) ++count;
  }
  return count;
}

// A wrong width, head count or vocabulary shows in the sum; norms and biases are below a
// thousandth.
TEST(PlanPresetsTest, ParametersAreThoseThatTheCheckpointsCount) {
  struct Published {
    const char* name;
    double parameters;
  };
  for (const Published& model : {
           Published{"llama-2-7b", 6738415616.0},
           {"llama-2-13b", 13015864320.0},
           {"llama-2-70b", 68976648192.0},
           {"llama-3.1-8b", 8030261248.0},
           {"llama-3.1-70b", 70553706496.0},
           {"llama-3.1-405b", 405853388800.0},
           {"llama-3.2-1b", 1235814400.0},
           {"llama-3.2-3b", 3212749824.0},
           {"qwen2.5-0.5b", 494032768.0},
           {"qwen2.5-1.5b", 1543714304.0},
           {"qwen2.5-3b", 3085938688.0},
           {"qwen2.5-7b", 7615616512.0},
           {"qwen2.5-14b", 14770033664.0},
           {"qwen2.5-32b", 32763876352.0},
           {"qwen2.5-72b", 72706203648.0},
           {"qwen3-0.6b", 596049920.0},
           {"qwen3-4b", 4022468096.0},
           {"qwen3-8b", 8190735360.0},
           {"qwen3-14b", 14768307200.0},
           {"qwen3-32b", 32762123264.0},
           {"qwen3-30b-a3b", 30532122624.0},
           {"qwen3-235b-a22b", 235093634560.0},
           {"mistral-7b", 7248023552.0},
           {"mixtral-8x7b", 46702792704.0},
           {"gemma-3-270m", 268098176.0},
           {"gemma-3-1b", 999885952.0},
           {"gemma-3-4b", 3880099328.0},
           {"gemma-3-12b", 11765788416.0},
           {"gemma-3-27b", 27009002240.0},
           {"phi-3-mini", 3821079552.0},
           {"phi-3-medium", 13960238080.0},
           {"phi-4", 14659507200.0},
           {"phi-4-mini", 3836021760.0},
           {"gpt-oss-20b", 20914757184.0},
           {"gpt-oss-120b", 116829156672.0},
           {"deepseek-v2-lite", 15706484224.0},
           {"deepseek-v2", 235741434880.0},
           {"deepseek-v3", 671026419200.0},
           {"smollm2-135m", 134515008.0},
           {"smollm2-360m", 361821120.0},
           {"smollm2-1.7b", 1711376384.0},
       }) {
    const PlanShape& shape = *FindPlanPreset(model.name).value();
    EXPECT_NEAR(static_cast<double>(CountParameters(shape)) / model.parameters, 1.0, 0.001)
        << model.name;
  }
}

TEST(PlanPresetsTest, TokensTakeTheBytesThatTheirModelsAreKnownFor) {
  const auto bytes = [](const char* name) {
    return TokenBytesOfF16(*FindPlanPreset(name).value());
  };
  EXPECT_EQ(bytes("llama-3.1-70b"), 327680);
  EXPECT_EQ(bytes("llama-2-7b"), 524288);
  EXPECT_EQ(bytes("llama-3.1-8b"), 131072);
  EXPECT_EQ(bytes("smollm2-135m"), 23040);
  EXPECT_EQ(bytes("gemma-3-270m"), 18432);
  EXPECT_EQ(bytes("gpt-oss-20b"), 49152);
  EXPECT_EQ(bytes("deepseek-v3"), 61 * (512 + 64) * 2);
}

TEST(PlanPresetsTest, WindowsFollowTheOrderOfTheLayers) {
  EXPECT_EQ(WindowedLayers("gemma-3-270m"), 15);
  EXPECT_EQ(WindowedLayers("gemma-3-1b"), 22);
  EXPECT_EQ(WindowedLayers("gemma-3-4b"), 29);
  EXPECT_EQ(WindowedLayers("gemma-3-12b"), 40);
  EXPECT_EQ(WindowedLayers("gemma-3-27b"), 52);
  EXPECT_EQ(WindowedLayers("gpt-oss-20b"), 12);
  EXPECT_EQ(WindowedLayers("gpt-oss-120b"), 18);
  EXPECT_EQ(WindowedLayers("llama-3.1-8b"), 0);
  const auto layers = ExpandLayers(*FindPlanPreset("gpt-oss-20b").value());
  EXPECT_EQ(layers[0].stored.window, 128);
  EXPECT_EQ(layers[1].stored.window, 0);
}

TEST(PlanPresetsTest, EveryShapeIsServedByEveryFormatAndHasANameOfItsOwn) {
  std::set<std::string> names;
  for (const PlanShape& shape : AllPlanPresets()) {
    SCOPED_TRACE(shape.name);
    EXPECT_TRUE(names.insert(shape.name).second);
    std::vector<PlanLayer> stored;
    std::vector<PlanLayer> unshared;
    for (const ShapedLayer& layer : ExpandLayers(shape)) {
      stored.push_back(layer.stored);
      unshared.push_back(layer.unshared);
    }
    for (const NamedPageFormat& format : AllPageFormats()) {
      EXPECT_TRUE(KvPlan::Make(stored, format.format).ok()) << format.name;
      EXPECT_TRUE(KvPlan::Make(unshared, format.format).ok()) << format.name;
    }
  }
}

TEST(PlanPresetsTest, NamesAreFoundInAnyCaseAndUnknownOnesAreListed) {
  EXPECT_STREQ(FindPlanPreset("Llama-3.1-70B").value()->name, "llama-3.1-70b");
  const auto unknown = FindPlanPreset("llama-9");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("smollm2-135m"), std::string::npos);
  EXPECT_TRUE(unknown.status().message().ends_with("\"llama-9\""));
}

}  // namespace
}  // namespace swiftkv
