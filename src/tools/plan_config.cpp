// SPDX-License-Identifier: Apache-2.0
// Looks keys up in a config.json, checks their types and ranges, and fills a shape.
#include "tools/plan_config.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status_macros.h"
#include "tools/json_excerpt.h"
#include "tools/plan_options.h"
#include "tools/plan_weights.h"
#include "tools/printable_text.h"

namespace swiftkv {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostBytes = 1 << 20;
constexpr int kMostLayers = 512;
constexpr int kMostHeads = 4096;
constexpr int kMostWidth = 1 << 20;
constexpr int kMostTokens = kMostPlannedTokens;

// Keys of models that keep something else than K and V of every token in every layer.
struct RefusedKey {
  const char* key;
  const char* what;
};
constexpr std::array<RefusedKey, 9> kRefused = {{
    {"ssm_cfg", "state-space layers"},
    {"mamba_d_state", "state-space layers"},
    {"mamba_num_heads", "state-space layers"},
    {"hybrid_override_pattern", "layers without attention"},
    {"full_attention_interval", "layers of linear attention"},
    {"attention_chunk_size", "attention in chunks"},
    {"num_kv_shared_layers", "layers that share one cache"},
    {"cross_attention_layers", "cross attention"},
    {"index_topk", "an index of keys beside the cache"},
}};

// How often a layer sees everything in families whose files may not say it.
struct FamilyPattern {
  const char* model_type;
  int full_every;
};
constexpr std::array<FamilyPattern, 4> kPatterns = {{
    {"gemma2", 2},
    {"gemma3_text", 6},
    {"gemma3", 6},
    {"gpt_oss", 2},
}};

class ConfigReader {
 public:
  ConfigReader(std::string path, const Json& object) : path_(std::move(path)), object_(object) {}

  Result<PlanShape> ReadShape();
  // One window for each layer, 0 for none; empty where the shape says it all.
  Result<std::vector<int>> ReadWindows(const PlanShape& shape) const;
  Result<WeightType> ReadWeightType(const PlanShape& shape) const;
  std::string ModelType() const { return Word("model_type"); }

 private:
  Status Wrong(const std::string& key, const std::string& accepts, const Json& value) const;
  // Null where the key is absent or null.
  const Json* Value(const char* key) const;
  std::string Word(const char* key) const;
  Result<std::optional<int>> Find(const char* key, int least, int most) const;
  Result<int> FindOr(const char* key, int least, int most, int absent) const;
  Result<int> Require(const char* key, int least, int most) const;
  Result<bool> Flag(const char* key, bool absent) const;
  Status ReadHeads(PlanShape* shape) const;
  Status ReadExperts(PlanShape* shape) const;
  Status ReadLatent(PlanShape* shape) const;
  Status ReadWindow(PlanShape* shape) const;

  const std::string path_;
  const Json& object_;
};

Status ConfigReader::Wrong(const std::string& key, const std::string& accepts,
                           const Json& value) const {
  return Status::DataLoss(fmt::format("{}: key \"{}\" must be {}, not: {}", PrintableLine(path_),
                                      key, accepts, JsonExcerpt(value)));
}

const Json* ConfigReader::Value(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::string ConfigReader::Word(const char* key) const {
  const Json* const value = Value(key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

Result<std::optional<int>> ConfigReader::Find(const char* key, int least, int most) const {
  const Json* const value = Value(key);
  if (value == nullptr) return std::optional<int>();
  const bool fits = value->is_number_integer() &&
                    (!value->is_number_unsigned() || value->get<std::uint64_t>() <= kMostTokens) &&
                    value->get<std::int64_t>() >= least && value->get<std::int64_t>() <= most;
  if (!fits) return Wrong(key, fmt::format("a whole number from {} to {}", least, most), *value);
  return std::optional<int>(value->get<int>());
}

Result<int> ConfigReader::FindOr(const char* key, int least, int most, int absent) const {
  SKV_ASSIGN_OR_RETURN(const std::optional<int> value, Find(key, least, most));
  return value.value_or(absent);
}

Result<int> ConfigReader::Require(const char* key, int least, int most) const {
  SKV_ASSIGN_OR_RETURN(const std::optional<int> value, Find(key, least, most));
  if (value) return *value;
  return Status::DataLoss(fmt::format("{}: no decoder's config.json, for it lacks the key: \"{}\"",
                                      PrintableLine(path_), key));
}

Result<bool> ConfigReader::Flag(const char* key, bool absent) const {
  const Json* const value = Value(key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) return Wrong(key, "true or false", *value);
  return value->get<bool>();
}

Result<PlanShape> ConfigReader::ReadShape() {
  for (const RefusedKey& refused : kRefused) {
    const Json* const value = Value(refused.key);
    if (value == nullptr || *value == 0 || (value->is_array() && value->empty())) continue;
    return Status::Unsupported(fmt::format("{}: {} are not planned for: key \"{}\"",
                                           PrintableLine(path_), refused.what, refused.key));
  }
  PlanShape shape;
  SKV_ASSIGN_OR_RETURN(shape.layers, Require("num_hidden_layers", 1, kMostLayers));
  SKV_ASSIGN_OR_RETURN(shape.hidden, Require("hidden_size", 1, kMostWidth));
  SKV_ASSIGN_OR_RETURN(shape.vocabulary, Require("vocab_size", 1, 1 << 24));
  SKV_ASSIGN_OR_RETURN(shape.context, Require("max_position_embeddings", 1, kMostTokens));
  // What the library that reads these files takes where one says nothing.
  const bool tied = ModelType().starts_with("gemma");
  SKV_ASSIGN_OR_RETURN(shape.tied_output, Flag("tie_word_embeddings", tied));
  SKV_RETURN_IF_ERROR(ReadHeads(&shape));
  SKV_RETURN_IF_ERROR(ReadExperts(&shape));
  SKV_RETURN_IF_ERROR(ReadLatent(&shape));
  SKV_RETURN_IF_ERROR(ReadWindow(&shape));
  return shape;
}

Status ConfigReader::ReadHeads(PlanShape* shape) const {
  SKV_ASSIGN_OR_RETURN(shape->query_heads, Require("num_attention_heads", 1, kMostHeads));
  SKV_ASSIGN_OR_RETURN(shape->kv_heads,
                       FindOr("num_key_value_heads", 1, kMostHeads, shape->query_heads));
  if (shape->query_heads % shape->kv_heads != 0) {
    return Wrong("num_key_value_heads",
                 fmt::format("a divisor of the {} query heads", shape->query_heads),
                 shape->kv_heads);
  }
  SKV_ASSIGN_OR_RETURN(const std::optional<int> head_dim, Find("head_dim", 1, 4096));
  if (!head_dim && shape->hidden % shape->query_heads != 0) {
    return Wrong(
        "hidden_size",
        fmt::format("a multiple of the {} heads where \"head_dim\" is missing", shape->query_heads),
        shape->hidden);
  }
  shape->head_dim = head_dim.value_or(shape->hidden / shape->query_heads);
  if (shape->query_heads > kMostWidth / shape->head_dim) {
    return Wrong(
        "num_attention_heads",
        fmt::format("at most {} for heads of {}", kMostWidth / shape->head_dim, shape->head_dim),
        shape->query_heads);
  }
  return Status::Ok();
}

Status ConfigReader::ReadExperts(PlanShape* shape) const {
  PlanShape::Experts& experts = shape->experts;
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    SKV_ASSIGN_OR_RETURN(const int count, FindOr(key, 0, 1 << 16, 0));
    experts.count = std::max(experts.count, count);
  }
  SKV_ASSIGN_OR_RETURN(shape->ffn, FindOr("intermediate_size", 1, kMostWidth, 0));
  if (experts.count == 0) {
    return shape->ffn > 0 ? Status::Ok() : Require("intermediate_size", 1, kMostWidth).status();
  }
  SKV_ASSIGN_OR_RETURN(experts.ffn, FindOr("moe_intermediate_size", 1, kMostWidth, shape->ffn));
  if (experts.ffn == 0) return Require("intermediate_size", 1, kMostWidth).status();
  SKV_ASSIGN_OR_RETURN(experts.shared, FindOr("n_shared_experts", 0, 1 << 10, 0));
  SKV_ASSIGN_OR_RETURN(experts.dense_layers, FindOr("first_k_dense_replace", 0, shape->layers, 0));
  return Status::Ok();
}

Status ConfigReader::ReadLatent(PlanShape* shape) const {
  PlanShape::Latent& latent = shape->latent;
  SKV_ASSIGN_OR_RETURN(latent.rank, FindOr("kv_lora_rank", 0, 4096, 0));
  if (latent.rank == 0) {
    SKV_ASSIGN_OR_RETURN(const int value_dim, FindOr("v_head_dim", 1, 4096, shape->head_dim));
    if (value_dim == shape->head_dim) return Status::Ok();
    return Status::Unsupported(
        fmt::format("{}: heads whose K and V differ in size are not planned for: key "
                    "\"v_head_dim\" is {}",
                    PrintableLine(path_), value_dim));
  }
  SKV_ASSIGN_OR_RETURN(latent.rope_dim, Require("qk_rope_head_dim", 0, 4096));
  SKV_ASSIGN_OR_RETURN(latent.plain_dim, Require("qk_nope_head_dim", 1, 4096));
  SKV_ASSIGN_OR_RETURN(latent.value_dim, Require("v_head_dim", 1, 4096));
  SKV_ASSIGN_OR_RETURN(latent.query_rank, FindOr("q_lora_rank", 0, kMostWidth, 0));
  const int widest = std::max(latent.rope_dim + latent.plain_dim, latent.value_dim);
  if (shape->query_heads <= kMostWidth / widest) return Status::Ok();
  return Wrong("num_attention_heads",
               fmt::format("at most {} for heads of {}", kMostWidth / widest, widest),
               shape->query_heads);
}

Status ConfigReader::ReadWindow(PlanShape* shape) const {
  SKV_ASSIGN_OR_RETURN(const int window, FindOr("sliding_window", 0, kMostTokens, 0));
  // This family has the key without using it, unless it says so.
  SKV_ASSIGN_OR_RETURN(const bool used,
                       Flag("use_sliding_window", !ModelType().starts_with("qwen")));
  if (!used) return Status::Ok();
  shape->window = window;
  for (const FamilyPattern& family : kPatterns) {
    if (ModelType() == family.model_type) shape->full_every = family.full_every;
  }
  for (const char* key : {"sliding_window_pattern", "_sliding_window_pattern"}) {
    const Json* const value = Value(key);
    if (value == nullptr || value->is_string()) continue;
    SKV_ASSIGN_OR_RETURN(shape->full_every, FindOr(key, 0, kMostLayers, 0));
  }
  return Status::Ok();
}

Result<std::vector<int>> ConfigReader::ReadWindows(const PlanShape& shape) const {
  std::vector<int> windows;
  const Json* const types = Value("layer_types");
  if (types == nullptr) {
    SKV_ASSIGN_OR_RETURN(const std::optional<int> first, Find("max_window_layers", 0, kMostLayers));
    if (!first || shape.window == 0 || shape.full_every > 0) return windows;
    for (int i = 0; i < shape.layers; ++i) windows.push_back(i < *first ? 0 : shape.window);
    return windows;
  }
  if (!types->is_array() || types->size() != static_cast<std::size_t>(shape.layers)) {
    return Wrong("layer_types", fmt::format("one name for each of the {} layers", shape.layers),
                 types->is_array() ? Json(types->size()) : *types);
  }
  for (std::size_t i = 0; i < types->size(); ++i) {
    const Json& type = (*types)[i];
    const bool windowed = type == "sliding_attention";
    if (!windowed && type != "full_attention") {
      return Wrong(fmt::format("layer_types[{}]", i), "full_attention or sliding_attention", type);
    }
    if (windowed && shape.window == 0) {
      return Wrong("sliding_window", "a number of tokens where layers have a window",
                   Value("sliding_window") == nullptr ? Json() : *Value("sliding_window"));
    }
    windows.push_back(windowed ? shape.window : 0);
  }
  return windows;
}

// Models in MXFP4 are published with their experts in it and the rest in bf16.
WeightType ExpertsInMxfp4(const PlanShape& shape) {
  constexpr double kExpertBits = 4.25;
  constexpr double kOtherBits = 16;
  const double part = static_cast<double>(CountExpertParameters(shape)) /
                      static_cast<double>(CountParameters(shape));
  return {"mxfp4", part > 0 ? part * kExpertBits + (1 - part) * kOtherBits : kExpertBits};
}

Result<WeightType> ConfigReader::ReadWeightType(const PlanShape& shape) const {
  if (const Json* const quantized = Value("quantization_config"); quantized != nullptr) {
    if (!quantized->is_object()) return Wrong("quantization_config", "an object", *quantized);
    const ConfigReader inner(path_, *quantized);
    if (inner.Word("quant_method") == "fp8") return ParseWeightType("fp8");
    if (inner.Word("quant_method") == "mxfp4") return ExpertsInMxfp4(shape);
    SKV_ASSIGN_OR_RETURN(const std::optional<int> bits, inner.Find("bits", 1, 32));
    if (bits) return ParseWeightType(std::to_string(*bits));
  }
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (Word(key) == "float32") return ParseWeightType("f32");
    if (Word(key) == "float16") return ParseWeightType("f16");
  }
  return ParseWeightType("bf16");
}

// The decoder of a model that also sees or hears is an object of its own.
const Json& DecoderObject(const Json& object) {
  if (object.contains("num_hidden_layers")) return object;
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    const auto found = object.find(key);
    if (found != object.end() && found->is_object()) return *found;
  }
  return object;
}

}  // namespace

Result<PlanModel> ParsePlanConfig(const std::string& path, const std::string& text,
                                  const std::string& weights_type) {
  const Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return Status::DataLoss(
        fmt::format("{} is no config.json: it does not hold a JSON object", PrintableLine(path)));
  }
  ConfigReader reader(path, DecoderObject(object));
  SKV_ASSIGN_OR_RETURN(const PlanShape shape, reader.ReadShape());
  SKV_ASSIGN_OR_RETURN(const std::vector<int> windows, reader.ReadWindows(shape));
  SKV_ASSIGN_OR_RETURN(const WeightType type, weights_type.empty()
                                                  ? ConfigReader(path, object).ReadWeightType(shape)
                                                  : ParseWeightType(weights_type));
  PlanModel model = ModelOfShape(shape, windows, type);
  model.name = path;
  model.kind = "config.json";
  model.architecture = reader.ModelType();
  return model;
}

Result<PlanModel> ReadPlanConfig(const std::string& path, const std::string& weights_type) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (!file.is_open() || file.bad()) {
    return Status::NotFound(fmt::format("no config.json can be read at: {}", PrintableLine(path)));
  }
  if (text.size() > kMostBytes) {
    return Status::DataLoss(fmt::format("a config.json has at most {} bytes, and more are in: {}",
                                        kMostBytes, PrintableLine(path)));
  }
  return ParsePlanConfig(path, text, weights_type);
}

}  // namespace swiftkv
