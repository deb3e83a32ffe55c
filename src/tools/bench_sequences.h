// SPDX-License-Identifier: Apache-2.0
// Prepares sequences of a given depth in a model's cache and advances them, for `bench model`.
//
// Owner: one thread. Depths are computed once and kept as forks: what is measured runs on a fork of
// a fork, which is dropped afterwards.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/language_model.h"
#include "swiftkv/kv_cache.h"
#include "swiftkv/status.h"

namespace swiftkv {

class BenchSequences {
 public:
  // Both outlive this object.
  BenchSequences(LanguageModel* model, KvCache* cache) : model_(model), cache_(cache) {}

  // Computes `count` tokens that differ from position to position, in chunks of at most the
  // model's rows, with the logits of the last one. Errors: those of Reserve and Forward.
  Status Append(SequenceId sequence, int count);

  // Computes one token of every sequence in one step, with its logits. Errors: as Append.
  Status Step(std::span<const SequenceId> sequences);

  // Makes a sequence as long as `whole` with the same content: it shares the pages of `prefix`, an
  // earlier fork of the same tokens, and has the rest for itself. Errors: ResourceExhausted.
  Result<SequenceId> CopyBehind(SequenceId prefix, SequenceId whole);

  KvCache* cache() const { return cache_; }

 private:
  TokenId TokenAt(std::int64_t position) const;
  void CopyLayer(SequenceId from, SequenceId to, int layer);

  LanguageModel* model_;
  KvCache* cache_;
  std::vector<TokenId> tokens_;       // scratch of a step
  std::vector<BatchSlice> slices_;    // likewise
  std::vector<PageRun> runs_;         // scratch of a copy
  std::vector<float> keys_, values_;  // [16, kv_heads, head_dim], likewise
};

}  // namespace swiftkv
