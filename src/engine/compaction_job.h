// SPDX-License-Identifier: Apache-2.0
// Carries one compaction of one sequence out, piece by piece: scores heads, plans pages, compacts.
// Layer: engine.
//
// Owner: the engine's thread; Score lends the pieces to a team. Between construction and the end
// the sequence must stay as it is, so whoever has a job computes nothing. What a job keeps depends
// on the sequence's tokens below its length and on the rule, not on the pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/thread_team.h"
#include "engine/forgetting_rule.h"
#include "engine/query_capture.h"
#include "engine/score_capture.h"
#include "model/language_model.h"
#include "policy/page_plan.h"
#include "swiftkv/compaction.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {

struct CompactionTask {
  SequenceId sequence{};
  std::shared_ptr<const ForgettingRule> rule;  // for the sequence's format
  const LanguageModel* model = nullptr;        // that has computed it
  const QueryCapture* queries = nullptr;       // of it; null where the policy needs none
  bool uses_figures = false;  // the rule's statistics of queries instead of the sequence's own
  bool for_sharing = false;   // of a prefix that others shall take, not of this sequence's own sake
};

// What a job did.
struct CompactionOutcome {
  bool compacted = false;  // false: the sequence was short, or within its budget
  CompactionResult result = {};
};

class CompactionJob {
 public:
  // Looks at the sequence as it is.
  CompactionJob(const KvCache& cache, const CompactionTask& task);

  std::int64_t length() const { return length_; }

  // Whether every head was scored.
  bool scored() const { return planned_ || scored_ == heads_.size(); }

  // Scores the next few heads, as many as keep the team busy for some milliseconds. Errors: those
  // of LanguageModel::SumProbabilities.
  Status Score(const KvCache& cache, ThreadTeam* team);

  // Plans, or goes on with compacting, for some milliseconds; every head was scored. Nothing: there
  // is more to do. Where there is no room for what is kept beside what was there, the rest is done
  // at once. Errors: ResourceExhausted where the cache has no room now: it may be tried again.
  Result<std::optional<CompactionOutcome>> CompactSome(KvCache* cache);

  // The same without a pause.
  Result<CompactionOutcome> Compact(KvCache* cache);

 private:
  struct Head {
    int layer;
    int head;
    std::vector<std::int32_t> positions;  // [candidates]; empty where they are 0, 1, 2...
    std::vector<float> scores;            // [candidates]
    std::vector<std::int32_t> order;      // [candidates] indices by score
  };

  // What heads of one layer are scored with.
  struct Layer {
    int layer = 0;
    std::vector<PageRun> runs;
    std::size_t slots = 0;                // of the runs
    std::vector<float> query_mean;        // [heads, head_dim]
    std::vector<float> query_covariance;  // [heads, head_dim, head_dim]
    std::vector<float> probabilities;     // [kv_heads, slots]
  };
  // Of one thread.
  struct Scratch {
    HeadCapture capture;
    std::vector<float> probabilities;  // [tokens]
  };

  Result<Layer> ReadLayer(const KvCache& cache, int layer) const;
  void ScoreHead(const Layer& layer, Head* head, Scratch* scratch) const;
  void FillQueries(const Layer& layer, int head, Scratch* scratch, ScoreInputs* inputs) const;
  std::span<const std::int32_t> PositionsOf(const Head& head) const;
  Result<PagePlan> Plan(const KvCache& cache) const;
  Status SettleOrder(const KvCache& cache);
  CompactionOrder OrderOf(const PagePlan& plan) const;

  CompactionTask task_;
  std::vector<LayerShape> layers_;
  std::int64_t length_;       // of the sequence
  std::int64_t plan_length_;  // that the budget is of: newest tokens may be yet to come
  std::int64_t end_;          // of the tokens that may be dropped
  bool dense_;                // nothing was dropped before
  std::vector<std::int32_t> all_positions_;  // [end], where dense
  std::vector<Head> heads_;                  // of all layers without a window, in order
  std::size_t scored_ = 0;                   // of heads_
  std::vector<Scratch> scratch_;             // [threads]
  CompactionOrder order_;                    // once planned
  bool planned_ = false;
  bool begun_ = false;  // pieces are copied
};

}  // namespace swiftkv
