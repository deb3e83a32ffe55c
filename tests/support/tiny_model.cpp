// SPDX-License-Identifier: Apache-2.0
// Lists the tiny models that stand for each supported family.
#include "support/tiny_model.h"

#include <ostream>

#include "base/check.h"

namespace swiftkv {
namespace {

// Two query heads to one KV head unless said otherwise, since a head mapped wrongly shows at once
// there.
TinyModel Row(const std::string& name, TinyFamily family, const TinyShape& shape,
              const TinyRope& rope = {}) {
  TinyModel model;
  model.name = name;
  model.family = family;
  model.shape = shape;
  model.rope = rope;
  return model;
}

void AddLlamaRows(std::vector<TinyModel>* rows) {
  rows->push_back(Row("llama_mha_d64_tied", TinyFamily::kLlama,
                      {.layers = 3,
                       .embedding = 128,
                       .query_heads = 2,
                       .kv_heads = 2,
                       .head_dim = 64,
                       .tied_output = true}));
  rows->push_back(Row("llama_gqa3_d64", TinyFamily::kLlama,
                      {.embedding = 96, .query_heads = 6, .kv_heads = 2, .head_dim = 64}));
  rows->push_back(Row("llama_gqa4_d128_factors", TinyFamily::kLlama,
                      {.embedding = 64, .query_heads = 4, .kv_heads = 1, .head_dim = 128},
                      {.scaling = TinyRopeScaling::kFactors, .freq_base = 500000.0F}));
  rows->push_back(Row("llama_d80_linear", TinyFamily::kLlama,
                      {.embedding = 80, .query_heads = 4, .kv_heads = 2, .head_dim = 80},
                      {.scaling = TinyRopeScaling::kLinear, .factor = 4.0F}));
  rows->push_back(
      Row("llama_d96_yarn", TinyFamily::kLlama,
          {.embedding = 96, .query_heads = 4, .kv_heads = 2, .head_dim = 96},
          {.scaling = TinyRopeScaling::kYarn, .factor = 8.0F, .original_context = 128}));
}

void AddQwenRows(std::vector<TinyModel>* rows) {
  rows->push_back(
      Row("qwen2_d64_tied", TinyFamily::kQwen2,
          {.embedding = 256, .query_heads = 4, .kv_heads = 2, .head_dim = 64, .tied_output = true},
          {.freq_base = 1000000.0F}));
  rows->push_back(Row("qwen2_d32_yarn", TinyFamily::kQwen2,
                      {.embedding = 224, .query_heads = 7, .kv_heads = 1, .head_dim = 32},
                      {.scaling = TinyRopeScaling::kYarn,
                       .freq_base = 1000000.0F,
                       .factor = 4.0F,
                       .original_context = 256}));
  rows->push_back(Row("qwen3_d128", TinyFamily::kQwen3,
                      {.embedding = 64, .query_heads = 4, .kv_heads = 2, .head_dim = 128},
                      {.freq_base = 1000000.0F}));
}

void AddGemmaRows(std::vector<TinyModel>* rows) {
  rows->push_back(Row("gemma3_d256_tied", TinyFamily::kGemma3,
                      {.layers = 7,
                       .embedding = 64,
                       .query_heads = 4,
                       .kv_heads = 1,
                       .head_dim = 256,
                       .tied_output = true},
                      {.freq_base = 1000000.0F}));
  // Linear scaling stretches the global layers only; the window layers keep their own base and
  // scale.
  rows->push_back(
      Row("gemma3_d64_linear", TinyFamily::kGemma3,
          {.layers = 8,
           .embedding = 64,
           .query_heads = 4,
           .kv_heads = 2,
           .head_dim = 64,
           .tied_output = true},
          {.scaling = TinyRopeScaling::kLinear, .freq_base = 1000000.0F, .factor = 8.0F}));
}

void AddPhiRows(std::vector<TinyModel>* rows) {
  rows->push_back(Row("phi3_d64", TinyFamily::kPhi3,
                      {.embedding = 256, .query_heads = 4, .kv_heads = 2, .head_dim = 64}));
  const TinyRope longrope = {
      .scaling = TinyRopeScaling::kLongRope, .original_context = 256, .attention_factor = 1.19F};
  TinyModel stretched =
      Row("phi3_d96_longrope_long", TinyFamily::kPhi3,
          {.embedding = 384, .query_heads = 4, .kv_heads = 4, .head_dim = 96}, longrope);
  stretched.open_context = 512;
  rows->push_back(stretched);
  TinyModel plain =
      Row("phi3_d64_longrope_short", TinyFamily::kPhi3,
          {.embedding = 256, .query_heads = 4, .kv_heads = 1, .head_dim = 64}, longrope);
  plain.open_context = 256;
  rows->push_back(plain);
}

std::vector<TinyModel> MakeTinyModels() {
  std::vector<TinyModel> rows;
  AddLlamaRows(&rows);
  AddQwenRows(&rows);
  AddGemmaRows(&rows);
  AddPhiRows(&rows);
  for (size_t i = 0; i < rows.size(); ++i) rows[i].seed = 1000 + i;
  return rows;
}

}  // namespace

const char* TinyFamilyName(TinyFamily family) {
  switch (family) {
    case TinyFamily::kLlama:
      return "llama";
    case TinyFamily::kQwen2:
      return "qwen2";
    case TinyFamily::kQwen3:
      return "qwen3";
    case TinyFamily::kGemma3:
      return "gemma3";
    case TinyFamily::kPhi3:
      return "phi3";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& stream, const TinyModel& model) {
  return stream << model.name;
}

const std::vector<TinyModel>& TinyModels() {
  static const std::vector<TinyModel> rows = MakeTinyModels();
  return rows;
}

const TinyModel& TinyModelNamed(const std::string& name) {
  const TinyModel* found = nullptr;
  for (const TinyModel& row : TinyModels()) {
    if (row.name == name) found = &row;
  }
  SKV_CHECK(found != nullptr, "a test asks for a tiny model that is in the table");
  return *found;
}

TinyTokenizer TinyChatTokenizer(TinyVocabularyKind kind) {
  TinyTokenizer tokenizer;
  tokenizer.kind = kind;
  tokenizer.control_tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  tokenizer.bos = "<|im_start|>";
  tokenizer.eos = "<|endoftext|>";
  tokenizer.chat_template =
      "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + "
      "message['content'] + "
      "'<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
      "'<|im_start|>assistant\n' }}"
      "{% endif %}";
  return tokenizer;
}

}  // namespace swiftkv
