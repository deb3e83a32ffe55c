// SPDX-License-Identifier: Apache-2.0
// Shrinks tiny models to a few kilobytes, so that a fuzzer's changes hit metadata more often than
// weights.
#include "support/fuzz_seeds.h"

namespace swiftkv {
namespace {

TinyModel Seed(const char* name, TinyFamily family) {
  TinyModel model;
  model.name = name;
  model.family = family;
  model.shape = {.layers = 1,
                 .embedding = 16,
                 .feed_forward = 16,
                 .query_heads = 1,
                 .kv_heads = 1,
                 .head_dim = 16,
                 .vocabulary = 8,
                 .context = 64,
                 .tied_output = true};
  return model;
}

}  // namespace

std::vector<TinyModel> GgufFuzzSeeds() {
  std::vector<TinyModel> seeds;
  seeds.push_back(Seed("llama", TinyFamily::kLlama));
  seeds.back().rope = {.scaling = TinyRopeScaling::kFactors};
  seeds.push_back(Seed("qwen2", TinyFamily::kQwen2));
  seeds.back().rope = {.scaling = TinyRopeScaling::kYarn, .factor = 4.0F, .original_context = 32};
  seeds.push_back(Seed("qwen3", TinyFamily::kQwen3));
  seeds.push_back(Seed("gemma3", TinyFamily::kGemma3));
  seeds.back().rope = {.scaling = TinyRopeScaling::kLinear, .factor = 8.0F};
  seeds.back().window.pattern = 2;
  seeds.push_back(Seed("phi3", TinyFamily::kPhi3));
  seeds.back().rope = {
      .scaling = TinyRopeScaling::kLongRope, .original_context = 32, .attention_factor = 1.2F};
  seeds.push_back(Seed("spm", TinyFamily::kLlama));
  seeds.back().tokenizer = TinyChatTokenizer(TinyVocabularyKind::kSpm);
  seeds.push_back(Seed("bpe", TinyFamily::kLlama));
  seeds.back().tokenizer = TinyChatTokenizer(TinyVocabularyKind::kBpe);
  return seeds;
}

}  // namespace swiftkv
