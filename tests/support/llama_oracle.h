// SPDX-License-Identifier: Apache-2.0
// Runs a GGUF with libllama, the judge of our own forward pass.
//
// By default as exact as libllama can be: flash attention off, K and V cached as F32, each Append()
// one batch. One oracle belongs to one thread. libllama's log is silenced; its last error ends up
// in the Status.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/logits.h"
#include "swiftkv/status.h"

namespace swiftkv {

enum class OracleCache { kF32, kF16, kQ8_0 };

struct OracleOptions {
  OracleCache cache = OracleCache::kF32;
  int context = 512;    // tokens; libllama rounds it up to a multiple of 256
  int max_chunk = 512;  // the most tokens that one Append() may carry
  int threads = 2;
  bool flash_attention = false;
  // Weights repacked for SIMD or AMX, as our own loader asks for. Both sides must agree: F16
  // products by AMX and by the plain kernels differ by 1e-4.
  bool extra_buffers = true;
};

class LlamaOracle {
 public:
  static Result<std::unique_ptr<LlamaOracle>> Load(const std::string& path,
                                                   const OracleOptions& options);
  ~LlamaOracle();
  LlamaOracle(const LlamaOracle&) = delete;
  LlamaOracle& operator=(const LlamaOracle&) = delete;

  int vocabulary_size() const;
  int length() const { return length_; }  // tokens in the cache

  // `add_special` puts BOS in front where the model asks for it; special tokens in `text` are
  // parsed.
  std::vector<int32_t> Tokenize(const std::string& text, bool add_special) const;
  std::string Text(std::span<const int32_t> tokens) const;
  bool EndsGeneration(int32_t token) const;

  // Appends tokens to the sequence in one batch and returns the logits after each of them.
  Result<Logits> Append(std::span<const int32_t> tokens);
  // The same, for the last token only.
  Result<Logits> AppendForLast(std::span<const int32_t> tokens);
  // Forgets tokens at these positions, rising, and leaves the others where they are. Errors: where
  // libllama's memory cannot.
  Status Forget(std::span<const int32_t> positions);
  // Forgets the sequence.
  void Clear();

 private:
  struct Impl;
  explicit LlamaOracle(std::unique_ptr<Impl> impl);
  Result<Logits> Decode(std::span<const int32_t> tokens, bool all_rows);

  std::unique_ptr<Impl> impl_;
  int length_ = 0;
};

// Appends `tokens` in chunks of at most `chunk` and returns the logits after each.
Result<Logits> AppendInChunks(LlamaOracle* oracle, std::span<const int32_t> tokens, int chunk);

// Appends `prompt` and then the best token `count` times; returns the chosen tokens, fewer where
// one ends the text.
Result<std::vector<int32_t>> GreedyTokens(LlamaOracle* oracle, std::span<const int32_t> prompt,
                                          int count);

enum class OracleWeights { kF32, kF16, kQ8_0, kQ4_1, kQ4_K };

// Rewrites the matrices of the GGUF at `from` in another format into `to`, about a second per 100
// million weights. Q8_0 and Q4_1 need columns in whole blocks of 32, Q4_K of 256.
Status RewriteWeights(const std::string& from, const std::string& to, OracleWeights weights);

}  // namespace swiftkv
