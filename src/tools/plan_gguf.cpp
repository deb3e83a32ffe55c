// SPDX-License-Identifier: Apache-2.0
// Takes the shape from the decoder's description, else from the keys that all families share.
#include "tools/plan_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/status_macros.h"
#include "model/architecture.h"
#include "model/gguf_file.h"
#include "tools/plan_options.h"
#include "tools/printable_text.h"

namespace swiftkv {
namespace {

constexpr int kMostLayers = 512;
constexpr int kMostHeads = 4096;
constexpr int kMostHeadDim = 4096;
constexpr int kMostWidth = 1 << 20;

// How often a layer sees everything in families whose files may not say it.
struct FamilyPattern {
  const char* architecture;
  int full_every;
};
constexpr std::array<FamilyPattern, 3> kPatterns = {{
    {"gemma2", 2},
    {"gpt-oss", 2},
    {"cohere2", 4},
}};

// Keys of models that keep something else than K and V of every token in every layer.
constexpr std::array<const char*, 9> kRefused = {"ssm.state_size",
                                                 "ssm.conv_kernel",
                                                 "wkv.head_size",
                                                 "kda.head_dim",
                                                 "shortconv.l_cache",
                                                 "full_attention_interval",
                                                 "attention.shared_kv_layers",
                                                 "attention.indexer.top_k",
                                                 "attention.kv_lora_rank_swa"};

// Reads the metadata of a family that the decoder does not know.
class ForeignReader {
 public:
  ForeignReader(const GgufFile& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  Result<PlanModel> Read();

 private:
  std::string Key(const char* name) const { return architecture_ + "." + name; }
  Result<int> Number(const char* name, int least, int most, int absent) const;
  Result<std::vector<int>> PerLayer(const char* name, int least, int most, int absent) const;
  Status RefuseFeatures() const;
  Result<std::vector<int>> ReadWindows() const;
  Result<PlanLayer> ReadRows(bool windowed, int head_dim) const;
  Status ReadHeads();
  Status ReadLatent(int rank);

  const GgufFile& file_;
  const std::string architecture_;
  PlanModel model_;
};

Result<int> ForeignReader::Number(const char* name, int least, int most, int absent) const {
  SKV_ASSIGN_OR_RETURN(const auto value, file_.FindInt(Key(name), {least, most}));
  return static_cast<int>(value.value_or(absent));
}

// One number for all layers or one for each.
Result<std::vector<int>> ForeignReader::PerLayer(const char* name, int least, int most,
                                                 int absent) const {
  const std::size_t layers = model_.layers.size();
  SKV_ASSIGN_OR_RETURN(const auto values, file_.FindInts(Key(name), {least, most}));
  if (!values) return std::vector<int>(layers, absent);
  if (values->size() != 1 && values->size() != layers) {
    return file_.Damaged(
        fmt::format("key '{}' must hold one number or one for each of the {} layers, not {}",
                    Key(name), layers, values->size()));
  }
  std::vector<int> numbers;
  for (std::size_t i = 0; i < layers; ++i) {
    numbers.push_back(static_cast<int>((*values)[values->size() == 1 ? 0 : i]));
  }
  return numbers;
}

Status ForeignReader::RefuseFeatures() const {
  for (const char* name : kRefused) {
    if (!file_.Has(Key(name))) continue;
    return file_.Unsupported(
        fmt::format("only attention over keys and values of every token is planned for, not what "
                    "this key is about: '{}'",
                    Key(name)));
  }
  return Status::Ok();
}

Result<std::vector<int>> ForeignReader::ReadWindows() const {
  const std::size_t layers = model_.layers.size();
  SKV_ASSIGN_OR_RETURN(const int window,
                       Number("attention.sliding_window", 0, kMostPlannedTokens, 0));
  std::vector<int> windows(layers, 0);
  if (window == 0 || window >= model_.context) return windows;
  SKV_ASSIGN_OR_RETURN(const auto pattern,
                       file_.FindInts(Key("attention.sliding_window_pattern"), {0, kMostLayers}));
  if (pattern && pattern->size() == layers) {
    for (std::size_t i = 0; i < layers; ++i) windows[i] = (*pattern)[i] != 0 ? window : 0;
    return windows;
  }
  std::int64_t full_every = pattern && pattern->size() == 1 ? pattern->front() : 0;
  for (const FamilyPattern& family : kPatterns) {
    if (full_every == 0 && architecture_ == family.architecture) full_every = family.full_every;
  }
  for (std::size_t i = 0; i < layers; ++i) {
    const auto layer = static_cast<std::int64_t>(i) + 1;
    windows[i] = full_every > 0 && layer % full_every != 0 ? window : 0;
  }
  return windows;
}

// Rows of K and V in layers that see everything, or in those with a window.
Result<PlanLayer> ForeignReader::ReadRows(bool windowed, int head_dim) const {
  PlanLayer rows;
  SKV_ASSIGN_OR_RETURN(rows.key_dim, Number("attention.key_length", 1, kMostHeadDim, head_dim));
  SKV_ASSIGN_OR_RETURN(rows.value_dim,
                       Number("attention.value_length", 1, kMostHeadDim, rows.key_dim));
  if (!windowed) return rows;
  SKV_ASSIGN_OR_RETURN(rows.key_dim,
                       Number("attention.key_length_swa", 1, kMostHeadDim, rows.key_dim));
  SKV_ASSIGN_OR_RETURN(rows.value_dim,
                       Number("attention.value_length_swa", 1, kMostHeadDim, rows.value_dim));
  return rows;
}

Status ForeignReader::ReadHeads() {
  SKV_ASSIGN_OR_RETURN(const auto heads, PerLayer("attention.head_count", 1, kMostHeads, 0));
  if (heads.front() == 0) {
    return file_.Damaged("the metadata lack the key '" + Key("attention.head_count") + "'");
  }
  SKV_ASSIGN_OR_RETURN(const auto kv_heads, PerLayer("attention.head_count_kv", 1, kMostHeads, 0));
  SKV_ASSIGN_OR_RETURN(const auto windows, ReadWindows());
  for (std::size_t i = 0; i < heads.size(); ++i) {
    SKV_ASSIGN_OR_RETURN(PlanLayer rows,
                         ReadRows(windows[i] > 0, std::max(1, model_.hidden / heads[i])));
    const int widest = std::max(rows.key_dim, rows.value_dim);
    if (heads[i] > kMostWidth / widest) {
      return file_.Damaged(
          fmt::format("no model has so many heads of {} channels: {}", widest, heads[i]));
    }
    rows.window = windows[i];
    ShapedLayer& layer = model_.layers[i];
    layer = {.stored = rows, .unshared = rows, .query_heads = heads[i]};
    layer.stored.kv_heads = kv_heads[i] == 0 ? heads[i] : std::min(kv_heads[i], heads[i]);
    layer.unshared.kv_heads = heads[i];
  }
  return Status::Ok();
}

// Multi-head latent attention: one row of the latent and the rotated channels for all heads.
Status ForeignReader::ReadLatent(int rank) {
  SKV_ASSIGN_OR_RETURN(const int rope_dim, Number("rope.dimension_count", 0, kMostHeadDim, 0));
  SKV_ASSIGN_OR_RETURN(const int key_dim, Number("attention.key_length_mla", 1, kMostHeadDim,
                                                 model_.layers.front().stored.key_dim));
  SKV_ASSIGN_OR_RETURN(const int value_dim, Number("attention.value_length_mla", 1, kMostHeadDim,
                                                   model_.layers.front().stored.value_dim));
  for (ShapedLayer& layer : model_.layers) {
    layer.stored = {1, rank + rope_dim, 0, 0};
    layer.unshared = {layer.query_heads, key_dim, value_dim, 0};
  }
  return Status::Ok();
}

Result<PlanModel> ForeignReader::Read() {
  SKV_RETURN_IF_ERROR(RefuseFeatures());
  SKV_ASSIGN_OR_RETURN(const auto context,
                       file_.RequireInt(Key("context_length"), {1, kMostPlannedTokens}));
  SKV_ASSIGN_OR_RETURN(const auto hidden,
                       file_.RequireInt(Key("embedding_length"), {1, kMostWidth}));
  SKV_ASSIGN_OR_RETURN(const auto blocks, file_.RequireInt(Key("block_count"), {1, kMostLayers}));
  SKV_ASSIGN_OR_RETURN(const int nextn, Number("nextn_predict_layers", 0, kMostLayers, 0));
  model_.context = static_cast<int>(context);
  model_.hidden = static_cast<int>(hidden);
  // Layers that predict further tokens come last and are not run.
  model_.layers.resize(static_cast<std::size_t>(std::max<std::int64_t>(1, blocks - nextn)));
  SKV_RETURN_IF_ERROR(ReadHeads());
  SKV_ASSIGN_OR_RETURN(const int rank, Number("attention.kv_lora_rank", 0, kMostHeadDim, 0));
  if (rank > 0) SKV_RETURN_IF_ERROR(ReadLatent(rank));
  SKV_ASSIGN_OR_RETURN(const auto ffn, file_.FindInts(Key("feed_forward_length"), {0, kMostWidth}));
  if (ffn && !ffn->empty()) {
    model_.ffn = static_cast<int>(*std::max_element(ffn->begin(), ffn->end()));
  }
  return std::move(model_);
}

PlanModel FromSpec(const DecoderSpec& spec) {
  PlanModel model;
  model.context = std::min(spec.context_length, kMostPlannedTokens);
  model.hidden = spec.hidden_dim;
  for (const DecoderLayerSpec& layer : spec.layers) {
    model.ffn = std::max(model.ffn, layer.ffn_dim);
    model.layers.push_back(
        {.stored = {layer.kv_heads, spec.head_dim, spec.head_dim, layer.window},
         .unshared = {layer.num_heads, spec.head_dim, spec.head_dim, layer.window},
         .query_heads = layer.num_heads});
  }
  return model;
}

Result<PlanModel> Describe(const GgufFile& file, const std::string& architecture) {
  const Result<const Architecture*> family = FindArchitecture(architecture);
  if (family.ok()) {
    const Result<DecoderSpec> spec = (*family)->Describe(file, DecodeLimits{});
    if (spec.ok()) return FromSpec(*spec);
    if (spec.status().code() != StatusCode::kUnsupported) return spec.status();
  }
  SKV_ASSIGN_OR_RETURN(PlanModel model, ForeignReader(file, architecture).Read());
  model.note = "planned from the metadata alone; this build does not run the model";
  return model;
}

void CountWeights(const GgufFile& file, PlanModel* model) {
  std::map<int, std::uint64_t> bytes_by_type;
  for (const GgufTensor& tensor : file.tensors()) {
    std::uint64_t elements = 1;
    for (const std::int64_t extent : tensor.shape) elements *= static_cast<std::uint64_t>(extent);
    model->parameters += elements;
    model->weights_bytes += tensor.bytes;
    bytes_by_type[tensor.type] += tensor.bytes;
  }
  const auto most =
      std::max_element(bytes_by_type.begin(), bytes_by_type.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != bytes_by_type.end()) model->weights_type = TensorTypeName(most->first);
}

}  // namespace

Result<PlanModel> ReadPlanGguf(const std::string& path) {
  SKV_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  SKV_ASSIGN_OR_RETURN(const std::string architecture, file->RequireString("general.architecture"));
  SKV_ASSIGN_OR_RETURN(PlanModel model, Describe(*file, architecture));
  CountWeights(*file, &model);
  const GgufTensor* const embedding = file->FindTensor("token_embd.weight");
  if (embedding != nullptr) {
    model.vocabulary = static_cast<int>(std::clamp<std::int64_t>(embedding->shape[1], 0, 1 << 24));
  }
  model.name = path;
  model.kind = "GGUF";
  model.architecture = PrintableExcerpt(architecture, 60);
  return model;
}

}  // namespace swiftkv
