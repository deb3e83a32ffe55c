// SPDX-License-Identifier: Apache-2.0
// Tests reading of config.json files: honest ones of several families, and hostile ones.
#include "tools/plan_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace swiftkv {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json Llama() {
  return {{"model_type", "llama"},     {"num_hidden_layers", 4},
          {"hidden_size", 256},        {"num_attention_heads", 8},
          {"num_key_value_heads", 2},  {"intermediate_size", 512},
          {"vocab_size", 1000},        {"max_position_embeddings", 4096},
          {"torch_dtype", "bfloat16"}, {"tie_word_embeddings", false}};
}

json Latent() {
  json config = Llama();
  config["model_type"] = "deepseek_v3";
  config.update({{"kv_lora_rank", 64},
                 {"qk_rope_head_dim", 16},
                 {"qk_nope_head_dim", 32},
                 {"v_head_dim", 32},
                 {"q_lora_rank", nullptr},
                 {"n_routed_experts", 16},
                 {"n_shared_experts", 1},
                 {"moe_intermediate_size", 128},
                 {"first_k_dense_replace", 1}});
  return config;
}

Result<PlanModel> Parse(const json& config, const std::string& type = "") {
  return ParsePlanConfig("config.json", config.dump(), type);
}

std::vector<int> Windows(const json& config) {
  const Result<PlanModel> model = Parse(config);
  EXPECT_TRUE(model.ok()) << model.status().message();
  std::vector<int> windows;
  if (!model.ok()) return windows;
  for (const ShapedLayer& layer : model->layers) windows.push_back(layer.stored.window);
  return windows;
}

TEST(PlanConfigTest, GroupedHeadsAndWeightsAreRead) {
  const PlanModel model = Parse(Llama()).value();
  ASSERT_EQ(model.layers.size(), 4U);
  EXPECT_EQ(model.layers[0].stored, (PlanLayer{2, 32, 32, 0}));
  EXPECT_EQ(model.layers[0].unshared, (PlanLayer{8, 32, 32, 0}));
  EXPECT_EQ(model.context, 4096);
  const std::uint64_t matrices =
      2 * 1000 * 256 + 4 * (2 * 256 * 256 + 2 * 256 * 64 + 3 * 256 * 512);
  EXPECT_EQ(model.parameters, matrices);
  EXPECT_EQ(model.weights_bytes, matrices * 2);
  EXPECT_EQ(Parse(Llama(), "8").value().weights_bytes, matrices);
  EXPECT_EQ(Parse(Llama(), "Q8_0").value().weights_bytes, matrices * 17 / 16);
}

TEST(PlanConfigTest, MissingHeadsOfKeysMeanOneForEachQueryHead) {
  json config = Llama();
  config.erase("num_key_value_heads");
  config["head_dim"] = 64;
  EXPECT_EQ(Parse(config).value().layers[0].stored, (PlanLayer{8, 64, 64, 0}));
}

TEST(PlanConfigTest, NestingDeeperThanTheStackIsRefusedByName) {
  const std::string deep = std::string(400000, '[') + std::string(400000, ']');
  for (const std::string& text : {"{\"num_hidden_layers\":" + deep + "}", "{\"x\":" + deep + "}",
                                  deep, std::string(400000, '[')}) {
    const Result<PlanModel> model = ParsePlanConfig("config.json", text, "");
    ASSERT_FALSE(model.ok());
    EXPECT_LT(model.status().message().size(), 300U);
  }
  const Result<PlanModel> model =
      ParsePlanConfig("config.json", "{\"num_hidden_layers\":" + deep + "}", "");
  EXPECT_THAT(model.status().message(), HasSubstr("num_hidden_layers"));
}

TEST(PlanConfigTest, ShapesBeyondAllMemoryNeverWrapAround) {
  json config = Latent();
  config.update({{"num_hidden_layers", 512},
                 {"n_routed_experts", 65536},
                 {"hidden_size", 1 << 20},
                 {"moe_intermediate_size", 1 << 20}});
  const Result<PlanModel> model = Parse(config);
  if (model.ok()) {
    EXPECT_GE(model->parameters, std::uint64_t{1} << 58);
  }
}

TEST(PlanConfigTest, WindowsFollowEveryWayToSayThem) {
  json config = Llama();
  config["sliding_window"] = 128;
  EXPECT_EQ(Windows(config), (std::vector<int>{128, 128, 128, 128}));
  config["sliding_window"] = 4096;
  EXPECT_EQ(Windows(config), (std::vector<int>{0, 0, 0, 0}));
  config["sliding_window"] = nullptr;
  EXPECT_EQ(Windows(config), (std::vector<int>{0, 0, 0, 0}));
  config["sliding_window"] = 128;
  config["sliding_window_pattern"] = 2;
  EXPECT_EQ(Windows(config), (std::vector<int>{128, 0, 128, 0}));
  config["layer_types"] = {"full_attention", "sliding_attention", "full_attention",
                           "full_attention"};
  EXPECT_EQ(Windows(config), (std::vector<int>{0, 128, 0, 0}));

  json gpt_oss = Llama();
  gpt_oss["model_type"] = "gpt_oss";
  gpt_oss["sliding_window"] = 128;
  EXPECT_EQ(Windows(gpt_oss), (std::vector<int>{128, 0, 128, 0}));

  json qwen = Llama();
  qwen["model_type"] = "qwen2";
  qwen["sliding_window"] = 128;
  qwen["max_window_layers"] = 3;
  EXPECT_EQ(Windows(qwen), (std::vector<int>{0, 0, 0, 0}));
  qwen["use_sliding_window"] = true;
  EXPECT_EQ(Windows(qwen), (std::vector<int>{0, 0, 0, 128}));
}

TEST(PlanConfigTest, LatentAttentionStoresOneRow) {
  const PlanModel model = Parse(Latent()).value();
  EXPECT_EQ(model.layers[3].stored, (PlanLayer{1, 80, 0, 0}));
  EXPECT_EQ(model.layers[3].unshared, (PlanLayer{8, 48, 32, 0}));
  const std::uint64_t attention = 256 * 8 * 48 + 256 * 80 + 64 * 8 * 64 + 256 * 8 * 32;
  EXPECT_EQ(model.parameters,
            2 * 1000 * 256 + 4 * attention + 3 * 256 * 512 + 3 * (17 * 3 * 256 * 128 + 256 * 16));
}

TEST(PlanConfigTest, TheDecoderOfAModelThatSeesIsFound) {
  const json config = {{"model_type", "gemma3"},
                       {"quantization_config", {{"quant_method", "awq"}, {"bits", 4}}},
                       {"text_config", Llama()}};
  const PlanModel model = Parse(config).value();
  EXPECT_EQ(model.layers.size(), 4U);
  EXPECT_EQ(model.weights_bytes, model.parameters / 2);
}

TEST(PlanConfigTest, ExpertsInMxfp4LeaveTheOtherWeightsAtSixteenBits) {
  json config = Llama();
  config.update({{"num_local_experts", 8}, {"quantization_config", {{"quant_method", "mxfp4"}}}});
  const PlanModel model = Parse(config).value();
  const double experts = 4.0 * 8 * 3 * 256 * 512;
  const double others = static_cast<double>(model.parameters) - experts;
  EXPECT_NEAR(static_cast<double>(model.weights_bytes), (experts * 4.25 + others * 16) / 8, 2);
}

TEST(PlanConfigTest, WhatIsNotPlannedForIsRefusedByItsKey) {
  const std::vector<std::pair<std::string, json>> cases = {
      {"mamba_d_state", 128},       {"index_topk", 2048}, {"attention_chunk_size", 8192},
      {"num_kv_shared_layers", 15}, {"v_head_dim", 48},   {"cross_attention_layers", {3, 8}}};
  for (const auto& [key, value] : cases) {
    json config = Llama();
    config[key] = value;
    const auto model = Parse(config);
    ASSERT_FALSE(model.ok()) << key;
    EXPECT_THAT(model.status().message(), HasSubstr("\"" + key + "\""));
  }
  json config = Llama();
  config["layer_types"] = {"full_attention", "linear_attention", "full_attention",
                           "full_attention"};
  EXPECT_THAT(Parse(config).status().message(), HasSubstr("\"layer_types[1]\""));
}

// Every key with every senseless value is an honest figure or one sentence that names it.
TEST(PlanConfigTest, SenselessValuesAreRefusedByTheirKey) {
  const std::vector<json> values = {-1,
                                    0,
                                    1,
                                    7,
                                    1.5,
                                    1e300,
                                    std::uint64_t{18446744073709551615U},
                                    std::int64_t{4294967296},
                                    "many\n\x1b[2J",
                                    true,
                                    json::array({1}),
                                    json::object(),
                                    nullptr};
  for (const json& base : {Llama(), Latent()}) {
    for (const auto& item : base.items()) {
      for (const json& value : values) {
        json config = base;
        config[item.key()] = value;
        const auto model = Parse(config);
        if (model.ok()) continue;
        const std::string& message = model.status().message();
        const bool names_it = message.find("\"" + item.key() + "\"") != std::string::npos;
        // A width may clash with the heads that divide it.
        const bool names_a_clash = message.find("head") != std::string::npos;
        EXPECT_TRUE(names_it || names_a_clash) << item.key() << ": " << message;
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
        EXPECT_EQ(message.find('\x1b'), std::string::npos) << message;
      }
      json config = base;
      config.erase(item.key());
      const auto model = Parse(config);
      if (!model.ok()) {
        EXPECT_THAT(model.status().message(), HasSubstr(item.key()));
      }
    }
  }
}

TEST(PlanConfigTest, TextThatIsNoObjectIsRefused) {
  const std::string whole = Llama().dump();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_FALSE(ParsePlanConfig("x", whole.substr(0, i), "").ok()) << i;
  }
  for (const char* text : {"", "[]", "3", "null", "\"x\"", "{\"a\":}", "\xff\xfe{}"}) {
    EXPECT_FALSE(ParsePlanConfig("x", text, "").ok()) << text;
  }
  EXPECT_FALSE(ParsePlanConfig("x", std::string(100000, '['), "").ok());
  EXPECT_FALSE(
      ParsePlanConfig("x", R"({"num_hidden_layers":)" + std::string(100000, '{'), "").ok());
  EXPECT_EQ(ReadPlanConfig("/nonexistent/config.json", "").status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(ReadPlanConfig("/", "").ok());
}

}  // namespace
}  // namespace swiftkv
