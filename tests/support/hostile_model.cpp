// SPDX-License-Identifier: Apache-2.0
// Damages what a GGUF says about its model: shapes, vocabulary and tensors.
#include <cstdint>
#include <limits>
#include <utility>

#include "support/hostile_gguf.h"
#include "support/tiny_gguf.h"

namespace swiftkv {
namespace {

constexpr auto kFail = HostileVerdict::kMustFail;
constexpr auto kMay = HostileVerdict::kMayLoad;
constexpr uint64_t kTwoTo62 = uint64_t{1} << 62U;
constexpr uint64_t kTwoTo63 = uint64_t{1} << 63U;

RawGguf Honest() { return MakeTinyGguf(HonestModel()); }

HostileGguf Without(const std::string& name, const std::string& key, HostileVerdict verdict) {
  RawGguf gguf = Honest();
  gguf.RemoveKey(key);
  // The last part of the key: an error may speak of "llama.context_length" or of "context_length".
  const std::string names = verdict == kFail ? key.substr(key.rfind('.') + 1) : "";
  return {name, SerializeGguf(gguf), verdict, names};
}

HostileGguf With(const std::string& name, RawGgufKey key, const std::string& names,
                 HostileVerdict verdict = kFail) {
  RawGguf gguf = Honest();
  gguf.SetKey(std::move(key));
  return {name, SerializeGguf(gguf), verdict, names};
}

HostileGguf WithCount(const std::string& name, const std::string& key, uint32_t value,
                      HostileVerdict verdict = kFail) {
  return With(name, GgufU32Key(key, value), verdict == kFail ? key.substr(key.rfind('.') + 1) : "",
              verdict);
}

// Applies `change` to the honest file's tensor named `tensor`.
template <typename Change>
HostileGguf WithTensor(const std::string& name, const std::string& tensor, Change change,
                       const std::string& names) {
  RawGguf gguf = Honest();
  change(&gguf.Tensor(tensor));
  return {name, SerializeGguf(gguf), kFail, names};
}

HostileGguf WithTextKey(const std::string& name, RawGgufKey key, HostileVerdict verdict = kFail) {
  RawGguf gguf = MakeTinyGguf(HonestModelWithText());
  gguf.SetKey(std::move(key));
  return {name, SerializeGguf(gguf), verdict, ""};
}

HostileGguf WithoutTextKey(const std::string& name, const std::string& key,
                           HostileVerdict verdict = kFail) {
  RawGguf gguf = MakeTinyGguf(HonestModelWithText());
  gguf.RemoveKey(key);
  return {name, SerializeGguf(gguf), verdict, ""};
}

std::vector<HostileGguf> MissingShapes() {
  std::vector<HostileGguf> files;
  files.push_back(Without("no_architecture", "general.architecture", kFail));
  files.push_back(Without("no_block_count", "llama.block_count", kFail));
  files.push_back(Without("no_context_length", "llama.context_length", kFail));
  files.push_back(Without("no_embedding_length", "llama.embedding_length", kFail));
  files.push_back(Without("no_head_count", "llama.attention.head_count", kFail));
  files.push_back(Without("no_rms_epsilon", "llama.attention.layer_norm_rms_epsilon", kFail));
  // What the tensors or the family's default can tell.
  files.push_back(Without("no_name", "general.name", kMay));
  files.push_back(Without("no_vocab_size", "llama.vocab_size", kMay));
  files.push_back(Without("no_head_count_kv", "llama.attention.head_count_kv", kMay));
  files.push_back(Without("no_rope_dimension_count", "llama.rope.dimension_count", kMay));
  files.push_back(Without("no_key_length", "llama.attention.key_length", kMay));
  files.push_back(Without("no_value_length", "llama.attention.value_length", kMay));
  files.push_back(Without("no_feed_forward_length", "llama.feed_forward_length", kMay));
  files.push_back(Without("no_freq_base", "llama.rope.freq_base", kMay));
  return files;
}

std::vector<HostileGguf> SenselessShapes() {
  const uint32_t huge = 0x80000000U;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<HostileGguf> files;
  files.push_back(WithCount("block_count_0", "llama.block_count", 0));
  files.push_back(WithCount("block_count_2", "llama.block_count", 2));
  files.back().names = "blk.1.";
  files.push_back(WithCount("block_count_2_31", "llama.block_count", huge));
  files.back().names = "";
  files.push_back(WithCount("context_length_0", "llama.context_length", 0));
  files.push_back(WithCount("context_length_2_31", "llama.context_length", huge, kMay));
  files.push_back(WithCount("embedding_length_0", "llama.embedding_length", 0));
  files.push_back(WithCount("embedding_length_2_31", "llama.embedding_length", huge));
  files.back().names = "";
  files.push_back(WithCount("head_count_0", "llama.attention.head_count", 0));
  files.push_back(WithCount("head_count_2_31", "llama.attention.head_count", huge));
  files.back().names = "";
  files.push_back(WithCount("head_count_kv_0", "llama.attention.head_count_kv", 0));
  files.push_back(WithCount("head_count_kv_3", "llama.attention.head_count_kv", 3));
  files.push_back(WithCount("key_length_0", "llama.attention.key_length", 0));
  files.push_back(WithCount("key_length_15", "llama.attention.key_length", 15));
  files.back().names = "";
  files.push_back(WithCount("value_length_8", "llama.attention.value_length", 8));
  files.back().names = "";
  files.push_back(WithCount("rope_dimension_count_15", "llama.rope.dimension_count", 15));
  files.back().names = "";
  files.push_back(WithCount("rope_dimension_count_2_31", "llama.rope.dimension_count", huge));
  files.back().names = "";
  files.push_back(WithCount("vocab_size_0", "llama.vocab_size", 0));
  files.back().names = "";
  files.push_back(WithCount("vocab_size_2_31", "llama.vocab_size", huge));
  files.back().names = "";
  files.push_back(WithCount("feed_forward_length_0", "llama.feed_forward_length", 0, kMay));
  files.push_back(With("rms_epsilon_nan", GgufF32Key("llama.attention.layer_norm_rms_epsilon", nan),
                       "epsilon"));
  files.push_back(With("rms_epsilon_negative",
                       GgufF32Key("llama.attention.layer_norm_rms_epsilon", -1.0F), "epsilon"));
  files.push_back(With("freq_base_0", GgufF32Key("llama.rope.freq_base", 0.0F), "freq_base"));
  files.push_back(With("freq_base_nan", GgufF32Key("llama.rope.freq_base", nan), "freq_base"));
  files.push_back(With("expert_count_8", GgufU32Key("llama.expert_count", 8), "expert"));
  return files;
}

std::vector<HostileGguf> MistypedShapes() {
  std::vector<HostileGguf> files;
  files.push_back(With("architecture_as_number", GgufU32Key("general.architecture", 7),
                       "general.architecture"));
  files.push_back(
      With("architecture_unknown", GgufStringKey("general.architecture", "mamba"), "mamba"));
  files.push_back(With("architecture_empty", GgufStringKey("general.architecture", ""), ""));
  files.push_back(
      With("block_count_as_string", GgufStringKey("llama.block_count", "1"), "block_count"));
  files.push_back(
      With("block_count_as_array", GgufI32sKey("llama.block_count", {1}), "block_count"));
  files.push_back(With("block_count_negative", GgufI32Key("llama.block_count", -1), ""));
  files.push_back(
      With("head_count_as_float", GgufF32Key("llama.attention.head_count", 4.0F), "head_count"));
  files.push_back(With("rms_epsilon_as_count",
                       GgufU32Key("llama.attention.layer_norm_rms_epsilon", 1), "epsilon"));
  files.push_back(
      With("head_count_kv_per_layer", GgufI32sKey("llama.attention.head_count_kv", {2}), "", kMay));
  files.push_back(With("head_count_kv_for_two_layers",
                       GgufI32sKey("llama.attention.head_count_kv", {2, 2}), "", kMay));
  files.push_back(With("head_count_kv_for_no_layer",
                       GgufI32sKey("llama.attention.head_count_kv", {}), "head_count_kv"));
  files.push_back(
      With("scaling_unknown", GgufStringKey("llama.rope.scaling.type", "spiral"), "spiral"));
  RawGguf zero_factor = Honest();
  zero_factor.SetKey(GgufStringKey("llama.rope.scaling.type", "yarn"));
  zero_factor.SetKey(GgufF32Key("llama.rope.scaling.factor", -2.0F));
  files.push_back({"scaling_factor_negative", SerializeGguf(zero_factor), kFail, "factor"});
  return files;
}

std::vector<HostileGguf> ExtentTensors() {
  const std::string query = "blk.0.attn_q.weight";
  std::vector<HostileGguf> files;
  files.push_back(WithTensor(
      "five_dimensions", query,
      [](RawGgufTensor* t) {
        t->shape = {2, 2, 2, 2, 2};
      },
      ""));
  files.push_back(WithTensor(
      "dimension_count_2_31", query, [](RawGgufTensor* t) { t->dimension_count = 0x80000000U; },
      ""));
  files.push_back(WithTensor(
      "extent_0", query,
      [](RawGgufTensor* t) {
        t->shape = {0, 64};
      },
      ""));
  files.push_back(WithTensor(
      "extent_minus_1", query,
      [](RawGgufTensor* t) {
        t->shape = {~uint64_t{0}, 64};
      },
      ""));
  files.push_back(WithTensor(
      "extents_overflow", query,
      [](RawGgufTensor* t) {
        t->shape = {kTwoTo62, kTwoTo62};
      },
      ""));
  files.push_back(WithTensor(
      "bytes_overflow", query,
      [](RawGgufTensor* t) {
        t->shape = {kTwoTo62, 1};
      },
      ""));
  files.push_back(WithTensor(
      "transposed", query,
      [](RawGgufTensor* t) {
        t->shape = {64, 32};
      },
      query));
  files.push_back(WithTensor(
      "one_row_short", query,
      [](RawGgufTensor* t) {
        t->shape = {32, 63};
        t->data.resize(t->data.size() - 128);
      },
      query));
  files.push_back(WithTensor(
      "norm_of_wrong_width", "output_norm.weight",
      [](RawGgufTensor* t) {
        t->shape = {31};
        t->data.resize(124);
      },
      "output_norm.weight"));
  return files;
}

std::vector<HostileGguf> OffsetTensors(uint64_t file_bytes) {
  const std::string query = "blk.0.attn_q.weight";
  const auto offset = [&](const std::string& name, uint64_t value) {
    return WithTensor(
        name, query, [&](RawGgufTensor* t) { t->offset = value; }, "");
  };
  std::vector<HostileGguf> files;
  files.push_back(offset("offset_at_the_end_of_the_file", file_bytes / 32 * 32));
  files.push_back(offset("offset_2_63", kTwoTo63));
  files.push_back(offset("offset_minus_32", ~uint64_t{0} - 31));
  files.push_back(offset("offset_unaligned", 4));
  files.push_back(offset("offset_of_another_tensor", 0));
  return files;
}

std::vector<HostileGguf> NamedTensors() {
  const std::string query = "blk.0.attn_q.weight";
  std::vector<HostileGguf> files;
  const auto type = [&](const std::string& name, uint32_t value) {
    return WithTensor(
        name, query, [&](RawGgufTensor* t) { t->type = value; }, "");
  };
  files.push_back(type("type_255", 255));
  files.push_back(type("type_minus_1", 0xFFFFFFFFU));
  files.push_back(type("type_withdrawn", 4));
  files.push_back(type("type_i32", 26));
  files.push_back(WithTensor(
      "rows_of_broken_blocks", query,
      [](RawGgufTensor* t) {
        t->type = 2;  // Q4_0: blocks of 32
        t->shape = {16, 128};
      },
      ""));
  files.push_back(WithTensor(
      "name_empty", query, [](RawGgufTensor* t) { t->name = ""; }, ""));
  files.push_back(WithTensor(
      "name_of_200_bytes", query, [](RawGgufTensor* t) { t->name.assign(200, 'n'); }, ""));
  files.push_back(WithTensor(
      "name_twice", query, [](RawGgufTensor* t) { t->name = "blk.0.attn_k.weight"; }, ""));
  for (const char* gone : {"token_embd.weight", "output_norm.weight", "blk.0.attn_q.weight",
                           "blk.0.attn_output.weight", "blk.0.ffn_down.weight"}) {
    RawGguf gguf = Honest();
    gguf.RemoveTensor(gone);
    std::string name = std::string("no_") + gone;
    for (char& c : name) c = c == '.' ? '_' : c;
    files.push_back({name, SerializeGguf(gguf), kFail, gone});
  }
  return files;
}

}  // namespace

std::vector<HostileGguf> HostileShapes() {
  std::vector<HostileGguf> files = MissingShapes();
  for (HostileGguf& file : SenselessShapes()) files.push_back(std::move(file));
  for (HostileGguf& file : MistypedShapes()) files.push_back(std::move(file));
  return files;
}

std::vector<HostileGguf> HostileVocabularies() {
  const std::string prefix = "tokenizer.ggml.";
  std::vector<HostileGguf> files;
  files.push_back(WithoutTextKey("no_tokenizer_model", prefix + "model"));
  files.push_back(WithoutTextKey("no_tokens", prefix + "tokens"));
  files.push_back(WithoutTextKey("no_merges", prefix + "merges"));
  files.push_back(WithoutTextKey("no_token_types", prefix + "token_type", kMay));
  files.push_back(WithoutTextKey("no_pre_tokenizer", prefix + "pre", kMay));
  files.push_back(WithoutTextKey("no_eos", prefix + "eos_token_id", kMay));
  files.push_back(WithTextKey("tokenizer_unknown", GgufStringKey(prefix + "model", "abacus")));
  files.push_back(WithTextKey("pre_tokenizer_unknown", GgufStringKey(prefix + "pre", "abacus")));
  files.push_back(WithTextKey("tokenizer_as_number", GgufU32Key(prefix + "model", 1)));
  files.push_back(WithTextKey("tokens_as_numbers", GgufI32sKey(prefix + "tokens", {1, 2, 3})));
  files.push_back(WithTextKey("tokens_as_string", GgufStringKey(prefix + "tokens", "abc")));
  files.push_back(WithTextKey("tokens_empty", GgufStringsKey(prefix + "tokens", {})));
  files.push_back(WithTextKey("fewer_tokens_than_rows", GgufStringsKey(prefix + "tokens", {"a"})));
  files.push_back(WithTextKey("token_types_short", GgufI32sKey(prefix + "token_type", {1})));
  files.push_back(WithTextKey("token_types_as_floats", GgufF32sKey(prefix + "token_type", {1.0F})));
  files.push_back(WithTextKey("merges_as_numbers", GgufI32sKey(prefix + "merges", {1})));
  files.push_back(
      WithTextKey("merges_of_nothing", GgufStringsKey(prefix + "merges", {"", " ", "x"}), kMay));
  files.push_back(
      WithTextKey("bos_out_of_range", GgufU32Key(prefix + "bos_token_id", 100000), kMay));
  files.push_back(
      WithTextKey("eos_out_of_range", GgufU32Key(prefix + "eos_token_id", 0xFFFFFFFFU), kMay));
  files.push_back(WithTextKey("eos_as_string", GgufStringKey(prefix + "eos_token_id", "2")));
  files.push_back(WithTextKey("add_bos_as_string", GgufStringKey(prefix + "add_bos_token", "yes")));
  files.push_back(
      WithTextKey("chat_template_as_number", GgufU32Key("tokenizer.chat_template", 5), kMay));
  files.push_back(WithTextKey("chat_template_broken",
                              GgufStringKey("tokenizer.chat_template", "{% for %}{{"), kMay));
  return files;
}

std::vector<HostileGguf> HostileTensors() {
  std::vector<HostileGguf> files = ExtentTensors();
  for (HostileGguf& file : OffsetTensors(SerializeGguf(Honest()).size())) {
    files.push_back(std::move(file));
  }
  for (HostileGguf& file : NamedTensors()) files.push_back(std::move(file));
  return files;
}

}  // namespace swiftkv
