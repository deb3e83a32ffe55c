// SPDX-License-Identifier: Apache-2.0
// Measures what forgetting costs: a prefix is computed, compressed, and what follows it is fed
// token by token and scored. Layer: engine.
//
// Owner: one thread. The prefix of a document is computed once in each format; every cell forks it,
// compresses the fork, and continues from it, in steps of `chunk` tokens whose rows read the cache
// as it is then. Distributions are compared with those over the whole cache in f16. docs/eval.md
// says what the figures mean.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/forgetting_rule.h"
#include "engine/recall_tasks.h"
#include "model/language_model.h"
#include "swiftkv/page_layout.h"
#include "swiftkv/rounding_guide.h"
#include "swiftkv/status.h"

namespace swiftkv {

// One way to hold a prefix.
struct ForgettingCell {
  PageFormat format;  // of the sequence
  // What is forgotten of it, once the prefix is computed; null: nothing.
  std::shared_ptr<const ForgettingRule> rule;
};

// What the model made of one token of a continuation.
struct ScoredToken {
  double kld = 0;          // from the whole f16 cache, nats; of kText only
  double nll = 0;          // -log probability, nats
  bool same_top1 = false;  // the likeliest token is that of the whole f16 cache; of kText only
  bool hit = false;        // the likeliest token is this one

  friend bool operator==(const ScoredToken&, const ScoredToken&) = default;
};

// What became of one document in one cell.
struct CellScore {
  std::uint64_t bytes = 0;        // of the pages that hold the prefix, positions of kept tokens too
  double bits_per_value = 0;      // of a K or V value that is held, scales included
  std::int64_t kept_tokens = 0;   // of the prefix, summed over layers and kv heads
  std::int64_t whole_tokens = 0;  // the same where nothing was dropped
  std::vector<std::vector<ScoredToken>> continuations;  // [continuations][scored tokens]

  friend bool operator==(const CellScore&, const CellScore&) = default;
};

struct ForgettingRunOptions {
  int chunk = 32;                               // tokens of a step after the prefix
  std::shared_ptr<const KeyGuides> key_guides;  // of formats with scales; may be null
  std::uint64_t kv_bytes = 0;  // bound on the cache of a document; 0: what it needs
};

// Takes the score of cells[index] as soon as it is known, in any order; an error ends the run.
using CellSink = std::function<Status(std::size_t index, CellScore score)>;

// Scores a document in every cell. Errors: InvalidArgument for a document beyond the model's
// context; ResourceExhausted where it passes the bound; those of Forward, of CompactionJob and of
// the sink; Cancelled.
Status ScoreDocument(LanguageModel* model, const RecallDocument& document,
                     std::span<const ForgettingCell> cells, const ForgettingRunOptions& options,
                     const CellSink& sink, const std::atomic<bool>* cancel);

}  // namespace swiftkv
