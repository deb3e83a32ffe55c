// SPDX-License-Identifier: Apache-2.0
// Runs a GGUF with our own forward pass over the paged cache, shaped like LlamaOracle for
// comparison.
//
// Freed and fresh frames are poisoned with NaN, so reading a slot that nobody wrote fails every
// bound. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/language_model.h"
#include "support/logits.h"
#include "swiftkv/kv_cache.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct PagedModelOptions {
  std::string format = "f32";  // a named pair of formats
  int context = 512;           // tokens
  int threads = 2;
  int max_chunk = 512;  // rows of one forward pass
  std::string attention_backend = "cpu";
  std::string isa = "auto";
  std::string linear = "ggml";
  bool precise = false;
  std::string packed_weights = "off";
  bool repacked_weights = true;
  std::uint64_t cache_bytes = std::uint64_t{256} << 20U;
};

// Tokens to append to one sequence.
struct SequenceChunk {
  SequenceId sequence{};
  std::span<const TokenId> tokens;
};

class PagedModel {
 public:
  static Result<std::unique_ptr<PagedModel>> Load(const std::string& path,
                                                  const PagedModelOptions& options);

  // Appends tokens to the model's own sequence in one forward pass; returns the logits after each.
  Result<Logits> Append(std::span<const TokenId> tokens);
  // Appends to several sequences in one forward pass; rows in the order of the chunks.
  Result<Logits> AppendBatch(std::span<const SequenceChunk> chunks);
  // Gives the own sequence back and starts an empty one.
  Status Clear();

  LanguageModel& model() { return *model_; }
  KvCache& cache() { return *cache_; }
  SequenceId sequence() const { return sequence_; }

 private:
  PagedModel() = default;

  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<KvCache> cache_;
  SequenceId sequence_{};
};

// Appends `tokens` in chunks of at most `chunk` and returns the logits after each.
Result<Logits> AppendInChunks(PagedModel* model, std::span<const TokenId> tokens, int chunk);

}  // namespace swiftkv
