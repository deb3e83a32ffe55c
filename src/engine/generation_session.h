// SPDX-License-Identifier: Apache-2.0
// Generates one reply after another over one sequence of the cache. Layer: engine.
//
// Owner: one thread. Each step is schedule (PlanStep) -> execute (Executor) -> commit (sample,
// append, tell). Between replies the sequence stays in the cache, so a prompt that begins with what
// it holds computes only the rest; at least the last prompt token is always computed, for its
// logits. Invariant: the sequence holds the first Length() tokens
// of `state_.tokens`; between replies those are all.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "engine/executor.h"
#include "engine/forgetting_state.h"
#include "engine/generation.h"
#include "engine/kv_memory.h"
#include "engine/sequence_state.h"
#include "model/language_model.h"
#include "model/sampler.h"
#include "model/token_text.h"
#include "model/vocabulary.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {

class GenerationSession {
 public:
  // All three must outlive the session. `cache` was made for the model's layer shapes, and
  // `footprint` describes it.
  GenerationSession(LanguageModel* model, const Vocabulary* vocabulary, KvCache* cache,
                    KvFootprint footprint);
  ~GenerationSession();
  GenerationSession(const GenerationSession&) = delete;
  GenerationSession& operator=(const GenerationSession&) = delete;

  // Computes the prompt and samples until the reply ends. `cancel` is looked at between and within
  // steps; a cancelled request is a result, not an error. Errors, all before anything is computed:
  // InvalidArgument for an empty prompt, one beyond the context, a token outside the vocabulary or
  // bad sampling options; ResourceExhausted for a prompt beyond the cache's memory (where
  // tokens take less once they are older, a chunk or metadata may fill it up later). While
  // computing, what Forward and Sample return.
  Result<GenerationResult> Generate(const GenerationRequest& request,
                                    const GenerationCallbacks& callbacks,
                                    const std::atomic<bool>* cancel);

  // Gives the sequence back: the next prompt starts cold.
  void Reset();

  const KvFootprint& footprint() const { return footprint_; }
  const KvCache& cache() const { return *cache_; }

  // The sequence that holds the tokens, none before the first reply and after Reset.
  std::optional<SequenceId> sequence() const;

  // Tokens that the sequence holds.
  std::int64_t Length() const;

  // Whether what it forgot was chosen by the model's statistics of queries.
  bool uses_figures() const { return uses_figures_; }

 private:
  struct Run;

  Status CheckPrompt(const GenerationRequest& request) const;
  Status CheckPromptFits(const GenerationRequest& request) const;
  Result<PrefixHit> ReusePrefix(const GenerationRequest& request);
  Status StartSequence();
  void Settle();
  Status Step(Run* run);
  bool IsCompactionDue() const;
  Status Compact(Run* run);
  void PlanNextCompaction(const GenerationRequest& request);
  Status SampleNext(Run* run, std::span<const float> logits);

  LanguageModel* model_;
  const Vocabulary* vocabulary_;
  KvCache* cache_;
  KvFootprint footprint_;
  Executor executor_;
  bool has_sequence_ = false;
  SequenceState state_;
  ForgettingState forgetting_;  // of the sequence
  // By the model's statistics of queries: earlier turns have left most of it and none of their own.
  bool uses_figures_ = false;
};

}  // namespace swiftkv
