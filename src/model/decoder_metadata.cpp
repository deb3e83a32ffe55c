// SPDX-License-Identifier: Apache-2.0
// Implements reading of the shapes that all decoder families have.
#include "model/decoder_metadata.h"

#include <cmath>

#include "base/status_macros.h"

namespace swiftkv {
namespace {

constexpr int kMaxLayers = 512;
constexpr int kMaxHeads = 4096;
constexpr int kMaxHeadDim = 4096;
constexpr int kMaxWidth = 1 << 20;  // channels of the residual stream or the feed-forward
constexpr int kMaxContext = 1 << 30;

class SpecReader {
 public:
  SpecReader(const GgufFile& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  Result<DecoderSpec> Read();

 private:
  std::string Key(const char* name) const { return architecture_ + "." + name; }
  Status RefuseFeatures() const;
  Status ReadWidths();
  Status ReadHeads();
  Status ReadHeadDim();
  Status ReadVocabularySize();
  Status PerLayer(const char* name, IntRange range, int DecoderLayerSpec::*field, bool* found);

  const GgufFile& file_;
  std::string architecture_;
  DecoderSpec spec_;
};

Result<DecoderSpec> SpecReader::Read() {
  spec_.architecture = architecture_;
  SKV_ASSIGN_OR_RETURN(const auto name, file_.FindString("general.name"));
  spec_.name = name.value_or("");
  SKV_RETURN_IF_ERROR(RefuseFeatures());
  SKV_RETURN_IF_ERROR(ReadWidths());
  SKV_RETURN_IF_ERROR(ReadHeads());
  SKV_RETURN_IF_ERROR(ReadHeadDim());
  SKV_RETURN_IF_ERROR(ReadVocabularySize());
  SKV_ASSIGN_OR_RETURN(const RopeSpec rope,
                       ReadRopeSpec(file_, architecture_, spec_.head_dim, spec_.context_length));
  for (DecoderLayerSpec& layer : spec_.layers) layer.rope = rope;
  return std::move(spec_);
}

Status SpecReader::RefuseFeatures() const {
  SKV_ASSIGN_OR_RETURN(const auto experts, file_.FindInt(Key("expert_count"), {0, 1 << 20}));
  if (experts.value_or(0) > 0) {
    return file_.Unsupported("mixtures of experts are not supported, only dense models: key '" +
                             Key("expert_count") + "' is " + std::to_string(*experts));
  }
  SKV_ASSIGN_OR_RETURN(const auto nextn, file_.FindInt(Key("nextn_predict_layers"), {0, 1 << 20}));
  if (nextn.value_or(0) > 0) {
    return file_.Unsupported("layers that predict several tokens are not supported: key '" +
                             Key("nextn_predict_layers") + "' is " + std::to_string(*nextn));
  }
  SKV_ASSIGN_OR_RETURN(const auto causal, file_.FindBool(Key("attention.causal")));
  if (!causal.value_or(true)) {
    return file_.Unsupported("only causal attention is supported: key '" + Key("attention.causal") +
                             "' is false");
  }
  for (const char* name : {"attention.max_alibi_bias", "attention.clamp_kqv"}) {
    SKV_ASSIGN_OR_RETURN(const auto value, file_.FindNumber(Key(name)));
    if (value.value_or(0.0) != 0.0) {
      return file_.Unsupported("ALiBi and clamped attention are not supported: key '" + Key(name) +
                               "' is " + file_.ValueText(Key(name)));
    }
  }
  return Status::Ok();
}

Status SpecReader::ReadWidths() {
  SKV_ASSIGN_OR_RETURN(const auto context,
                       file_.RequireInt(Key("context_length"), {1, kMaxContext}));
  SKV_ASSIGN_OR_RETURN(const auto hidden,
                       file_.RequireInt(Key("embedding_length"), {1, kMaxWidth}));
  SKV_ASSIGN_OR_RETURN(const auto blocks, file_.RequireInt(Key("block_count"), {1, kMaxLayers}));
  SKV_ASSIGN_OR_RETURN(const double epsilon,
                       file_.RequireNumber(Key("attention.layer_norm_rms_epsilon")));
  if (epsilon <= 0.0 || epsilon >= 1.0) {
    return file_.Damaged("key '" + Key("attention.layer_norm_rms_epsilon") +
                         "' must lie in (0, 1), not " +
                         file_.ValueText(Key("attention.layer_norm_rms_epsilon")));
  }
  spec_.context_length = static_cast<int>(context);
  spec_.hidden_dim = static_cast<int>(hidden);
  spec_.rms_epsilon = static_cast<float>(epsilon);
  spec_.layers.resize(static_cast<std::size_t>(blocks));
  bool found = false;
  SKV_RETURN_IF_ERROR(
      PerLayer("feed_forward_length", {1, kMaxWidth}, &DecoderLayerSpec::ffn_dim, &found));
  if (found) return Status::Ok();
  for (std::size_t i = 0; i < spec_.layers.size(); ++i) {
    const std::string tensor = "blk." + std::to_string(i) + ".ffn_down.weight";
    const GgufTensor* down = file_.FindTensor(tensor);
    if (down == nullptr || down->shape[0] > kMaxWidth) {
      return file_.Damaged("neither key '" + Key("feed_forward_length") + "' nor tensor '" +
                           tensor + "' tells the width of the feed-forward");
    }
    spec_.layers[i].ffn_dim = static_cast<int>(down->shape[0]);
  }
  return Status::Ok();
}

// Reads one number for all layers or one for each.
Status SpecReader::PerLayer(const char* name, IntRange range, int DecoderLayerSpec::*field,
                            bool* found) {
  SKV_ASSIGN_OR_RETURN(const auto values, file_.FindInts(Key(name), range));
  *found = values.has_value();
  if (!values) return Status::Ok();
  const std::size_t layers = spec_.layers.size();
  if (values->size() != 1 && values->size() != layers) {
    return file_.Damaged("key '" + Key(name) + "' must hold one number or one for each of the " +
                         std::to_string(layers) + " layers, not " + std::to_string(values->size()));
  }
  for (std::size_t i = 0; i < layers; ++i) {
    spec_.layers[i].*field = static_cast<int>((*values)[values->size() == 1 ? 0 : i]);
  }
  return Status::Ok();
}

Status SpecReader::ReadHeads() {
  bool found = false;
  SKV_RETURN_IF_ERROR(
      PerLayer("attention.head_count", {1, kMaxHeads}, &DecoderLayerSpec::num_heads, &found));
  if (!found)
    return file_.Damaged("the metadata lack the key '" + Key("attention.head_count") + "'");
  for (DecoderLayerSpec& layer : spec_.layers) layer.kv_heads = layer.num_heads;
  SKV_RETURN_IF_ERROR(
      PerLayer("attention.head_count_kv", {1, kMaxHeads}, &DecoderLayerSpec::kv_heads, &found));
  for (const DecoderLayerSpec& layer : spec_.layers) {
    if (layer.num_heads % layer.kv_heads != 0) {
      return file_.Damaged("key '" + Key("attention.head_count_kv") + "' must divide the " +
                           std::to_string(layer.num_heads) + " query heads, not be " +
                           std::to_string(layer.kv_heads));
    }
  }
  return Status::Ok();
}

Status SpecReader::ReadHeadDim() {
  SKV_ASSIGN_OR_RETURN(const auto key_length,
                       file_.FindInt(Key("attention.key_length"), {1, kMaxHeadDim}));
  SKV_ASSIGN_OR_RETURN(const auto value_length,
                       file_.FindInt(Key("attention.value_length"), {1, kMaxHeadDim}));
  const DecoderLayerSpec& first = spec_.layers.front();
  std::int64_t head_dim = key_length.value_or(0);
  if (head_dim == 0) {
    // The projection's rows tell it where the keys do not.
    const GgufTensor* query = file_.FindTensor("blk.0.attn_q.weight");
    const std::int64_t rows = query == nullptr ? spec_.hidden_dim : query->shape[1];
    if (rows % first.num_heads != 0 || rows / first.num_heads > kMaxHeadDim) {
      return file_.Damaged("the metadata lack the key '" + Key("attention.key_length") + "', and " +
                           std::to_string(rows) + " channels do not divide into " +
                           std::to_string(first.num_heads) + " heads");
    }
    head_dim = rows / first.num_heads;
  }
  if (value_length.value_or(head_dim) != head_dim) {
    return file_.Unsupported("heads whose K and V differ in size are not supported: K has " +
                             std::to_string(head_dim) + " channels, V " +
                             std::to_string(*value_length));
  }
  spec_.head_dim = static_cast<int>(head_dim);
  spec_.attention_scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  return Status::Ok();
}

// The embedding has the last word on the number of tokens: it is what ids index.
Status SpecReader::ReadVocabularySize() {
  const GgufTensor* embedding = file_.FindTensor("token_embd.weight");
  if (embedding == nullptr) return file_.Damaged("tensor 'token_embd.weight' is missing");
  const std::int64_t rows = embedding->shape[1];
  if (rows > (1 << 24)) {
    return file_.Damaged("tensor 'token_embd.weight' has more than 16777216 tokens: " +
                         std::to_string(rows));
  }
  SKV_ASSIGN_OR_RETURN(const auto tokens, file_.FindArrayLength("tokenizer.ggml.tokens"));
  SKV_ASSIGN_OR_RETURN(const auto key, file_.FindInt(Key("vocab_size"), {1, 1LL << 32}));
  const auto known = tokens ? static_cast<std::int64_t>(*tokens) : key.value_or(rows);
  if (known != rows) {
    return file_.Damaged("the vocabulary has " + std::to_string(known) +
                         " tokens, but tensor 'token_embd.weight' has " + std::to_string(rows));
  }
  spec_.vocab_size = static_cast<int>(rows);
  spec_.tied_output = file_.FindTensor("output.weight") == nullptr;
  spec_.fused_qkv = file_.FindTensor("blk.0.attn_qkv.weight") != nullptr;
  return Status::Ok();
}

}  // namespace

Result<DecoderSpec> ReadDecoderSpec(const GgufFile& file, const DecodeLimits& limits) {
  SKV_ASSIGN_OR_RETURN(std::string architecture, file.RequireString("general.architecture"));
  SKV_ASSIGN_OR_RETURN(DecoderSpec spec, SpecReader(file, std::move(architecture)).Read());
  if (limits.context < 0 || limits.context > spec.context_length) {
    return Status::InvalidArgument(
        "the context must lie in [1, " + std::to_string(spec.context_length) +
        "], the model's own maximum, not " + std::to_string(limits.context));
  }
  return spec;
}

}  // namespace swiftkv
