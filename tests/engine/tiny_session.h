// SPDX-License-Identifier: Apache-2.0
// Gives tests a generation session over a tiny model with random weights.
//
// The cache holds f32 and poisons frames, so a slot that was never written would show.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/generation_session.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/tiny_model.h"

namespace swiftkv {

struct TinySessionOptions {
  TinyFamily family = TinyFamily::kLlama;
  int context = 256;  // tokens
  int chunk = 64;     // rows of one step
  int window = 0;     // gemma3 only; 0: the tiny model's own
  // That compute. Several spin until all have done their part of a layer: where other processes
  // have the cores, each wait takes a slice of time, and a test of hundreds of steps a minute.
  int threads = 1;
  std::uint64_t cache_bytes = std::uint64_t{64} << 20;
};

struct TinySession {
  std::unique_ptr<LanguageModel> model;
  std::unique_ptr<Vocabulary> vocabulary;
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<GenerationSession> session;

  // Generates greedily and fails the test on an error.
  GenerationResult Greedy(std::vector<TokenId> prompt, int max_tokens) {
    GenerationRequest request;
    request.prompt = std::move(prompt);
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.max_tokens = max_tokens;
    return Run(request);
  }

  GenerationResult Run(const GenerationRequest& request) {
    Result<GenerationResult> result = session->Generate(request, {}, nullptr);
    EXPECT_TRUE(result.ok()) << result.status().message();
    cache->CheckInvariants();
    return result.ok() ? std::move(result).value() : GenerationResult{};
  }
};

// Stops the test where the model cannot be made.
inline TinySession MakeTinySession(const TinySessionOptions& options) {
  const TempDirectory directory;
  TinyModel tiny;
  tiny.name = "session";
  tiny.family = options.family;
  tiny.shape.layers = options.family == TinyFamily::kGemma3 ? 7 : 2;
  tiny.tokenizer = TinyChatTokenizer(TinyVocabularyKind::kBpe);
  if (options.window > 0) tiny.window.tokens = options.window;
  const Result<std::string> path = WriteTinyGguf(tiny, directory.path());
  EXPECT_TRUE(path.ok()) << path.status().message();

  TinySession made;
  ModelOptions model_options;
  model_options.path = *path;
  model_options.linear = "ggml";  // sessions are compared with one another
  model_options.threads = options.threads;
  model_options.context = options.context;
  model_options.max_batch_rows = options.chunk;
  made.model = LanguageModel::Load(model_options, nullptr).value();
  made.vocabulary = Vocabulary::Load(*path).value();
  KvCacheOptions cache_options;
  cache_options.layers = made.model->layer_shapes();
  cache_options.key_format = "f32";
  cache_options.value_format = "f32";
  cache_options.memory_bytes = options.cache_bytes;
  cache_options.poison_free_frames = true;
  made.cache = KvCache::Create(cache_options).value();
  made.session = std::make_unique<GenerationSession>(
      made.model.get(), made.vocabulary.get(), made.cache.get(),
      KvFootprint::Make(cache_options.layers, "f32", "f32").value());
  return made;
}

// Returns `count` tokens that stand for bytes, different for each seed.
inline std::vector<TokenId> TinyPrompt(int count, int seed = 1) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((i * 37 + seed * 101) % 200);
  return tokens;
}

inline std::vector<TokenId> Join(std::vector<TokenId> first, const std::vector<TokenId>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace swiftkv
