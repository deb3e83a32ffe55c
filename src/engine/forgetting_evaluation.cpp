// SPDX-License-Identifier: Apache-2.0
// Computes prefixes, forks and compresses them, and scores what follows.
#include "engine/forgetting_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "base/thread_team.h"
#include "cache/format_names.h"
#include "engine/compaction_job.h"
#include "engine/divergence.h"
#include "engine/executor.h"
#include "engine/kv_memory.h"
#include "engine/query_capture.h"
#include "formats/codec_table.h"
#include "formats/page_format_table.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {
namespace {

constexpr const char* kBaseline = "f16";

// A sequence that goes back to the cache when it goes out of sight.
class HeldSequence {
 public:
  HeldSequence(KvCache* cache, SequenceId id) : cache_(cache), id_(id) {}
  ~HeldSequence() {
    if (cache_ != nullptr) cache_->Release(id_);
  }
  HeldSequence(HeldSequence&& other) noexcept
      : cache_(std::exchange(other.cache_, nullptr)), id_(other.id_) {}
  HeldSequence& operator=(HeldSequence&&) = delete;
  SequenceId id() const { return id_; }

 private:
  KvCache* cache_;
  SequenceId id_;
};

// Hands the queries of one prefix to what every cell observes of them.
class ObservedPrefix final : public QuerySink {
 public:
  void Observe(const LanguageModel& model, const ForgettingCell& cell) {
    if (cell.rule == nullptr) return;
    const ScoreNeeds& needs = cell.rule->policy.policy->info().needs;
    const bool needs_statistics = needs.query_statistics && cell.rule->figures == nullptr;
    if ((!needs_statistics && !needs.probabilities) || Of(cell) != nullptr) return;
    captures_.push_back(
        {cell.rule->observed_queries(),
         std::make_unique<QueryCapture>(model.spec(), needs, cell.rule->observed_queries())});
  }

  // What the cell's method looks at; null where it looks at no queries of the prefix.
  const QueryCapture* Of(const ForgettingCell& cell) const {
    if (cell.rule == nullptr) return nullptr;
    const ScoreNeeds& needs = cell.rule->policy.policy->info().needs;
    if (!needs.probabilities && (!needs.query_statistics || cell.rule->figures != nullptr)) {
      return nullptr;
    }
    for (const Capture& capture : captures_) {
      if (capture.observed == cell.rule->observed_queries()) return capture.queries.get();
    }
    return nullptr;
  }

  void Add(const SliceQueries& queries, int thread, int num_threads) override {
    for (const Capture& capture : captures_) capture.queries->Add(queries, thread, num_threads);
  }

 private:
  // Methods that look at probabilities differ in how many queries they observe; those that look at
  // statistics observe none.
  struct Capture {
    int observed;
    std::unique_ptr<QueryCapture> queries;
  };
  std::vector<Capture> captures_;
};

// What the whole f16 cache makes of a continuation.
struct ExactContinuation {
  std::vector<float> logits;  // [scored, vocabulary]
};

class DocumentRun {
 public:
  DocumentRun(LanguageModel* model, const RecallDocument& document,
              std::span<const ForgettingCell> cells, const ForgettingRunOptions& options,
              const std::atomic<bool>* cancel)
      : model_(model),
        document_(document),
        cells_(cells),
        options_(options),
        cancel_(cancel),
        team_(model->threads()),
        vocabulary_(static_cast<std::size_t>(model->spec().vocab_size)) {}

  Status Run(const CellSink& sink) {
    SKV_RETURN_IF_ERROR(OpenCache());
    SKV_ASSIGN_OR_RETURN(const PageFormat baseline, FindPageFormat(kBaseline));
    std::vector<PageFormat> formats = {baseline};
    for (const ForgettingCell& cell : cells_) {
      if (std::find(formats.begin(), formats.end(), cell.format) == formats.end()) {
        formats.push_back(cell.format);
      }
    }
    for (const PageFormat& format : formats) {
      const bool is_baseline = format == baseline;
      std::vector<std::size_t> indices;
      for (std::size_t i = 0; i < cells_.size(); ++i) {
        if (cells_[i].format == format) indices.push_back(i);
      }
      if (indices.empty() && !(is_baseline && compares())) continue;
      ObservedPrefix observed;
      for (const std::size_t index : indices) observed.Observe(*model_, cells_[index]);
      SKV_ASSIGN_OR_RETURN(const HeldSequence prefix, ComputePrefix(NamesOf(format), &observed));
      if (is_baseline && compares()) SKV_RETURN_IF_ERROR(KeepExact(prefix.id()));
      for (const std::size_t index : indices) {
        SKV_ASSIGN_OR_RETURN(CellScore score, ScoreCell(cells_[index], prefix.id(), observed));
        SKV_RETURN_IF_ERROR(sink(index, std::move(score)));
      }
    }
    return Status::Ok();
  }

 private:
  bool compares() const { return document_.kind == TaskKind::kText; }

  // Room for the prefix whole, twice compressed to at most as much, and continuations.
  Status OpenCache() {
    std::size_t longest = 0;
    for (const Continuation& continuation : document_.continuations) {
      longest = std::max(longest, continuation.tokens.size());
    }
    const std::size_t tokens = document_.prefix.size() + longest;
    if (static_cast<std::int64_t>(tokens) > model_->context()) {
      return Status::InvalidArgument(
          fmt::format("a document has as many tokens as the model's context at most, {}, not: {}",
                      model_->context(), tokens));
    }
    constexpr std::uint64_t kMetadataBytes = 1ULL << 20;
    const std::vector<LayerShape> layers = model_->layer_shapes();
    SKV_ASSIGN_OR_RETURN(const KvFootprint widest, KvFootprint::Make(layers, "f32", "f32"));
    KvCacheOptions options;
    options.layers = layers;
    options.key_format = kBaseline;
    options.value_format = kBaseline;
    options.key_guides = options_.key_guides;
    const std::uint64_t whole = widest.PageBytes(static_cast<std::int64_t>(tokens) + kPageTokens);
    options.memory_bytes = 3 * whole + whole / 32 + kMetadataBytes;
    if (options_.kv_bytes != 0) {
      options.memory_bytes = std::min(options.memory_bytes, options_.kv_bytes);
    }
    SKV_ASSIGN_OR_RETURN(cache_, KvCache::Create(options));
    executor_ = std::make_unique<Executor>(model_, cache_.get());
    return Status::Ok();
  }

  Result<HeldSequence> ComputePrefix(const KvFormat& format, QuerySink* queries) {
    SKV_ASSIGN_OR_RETURN(const SequenceId id, cache_->CreateSequence(format));
    HeldSequence sequence(cache_.get(), id);
    const int count = static_cast<int>(document_.prefix.size());
    for (int begin = 0; begin < count; begin += model_->max_batch_rows()) {
      const int end = std::min(count, begin + model_->max_batch_rows());
      Step step;
      step.tokens =
          std::span(document_.prefix)
              .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
      step.outputs = 1;  // without logits the last layer's queries are not computed
      step.queries = queries;
      SKV_RETURN_IF_ERROR(Forward(id, step).status());
    }
    return sequence;
  }

  struct Step {
    std::span<const TokenId> tokens;
    int outputs = 0;
    QuerySink* queries = nullptr;
  };

  Result<std::span<const float>> Forward(SequenceId sequence, const Step& step) {
    StepPlan plan;
    plan.tokens.assign(step.tokens.begin(), step.tokens.end());
    PlannedSlice slice;
    slice.is_prefill = true;
    slice.allowed = Quality::kAny;
    slice.rows.sequence = sequence;
    slice.rows.first_position = cache_->Length(sequence);
    slice.rows.num_rows = static_cast<int>(step.tokens.size());
    slice.rows.num_outputs = step.outputs;
    slice.rows.queries = step.queries;
    plan.slices.push_back(slice);
    return executor_->Execute(plan, cancel_);
  }

  // Feeds a continuation to a fork and shows the logits of each chunk's predicting rows:
  // visit(first scored token that they predict, logits).
  template <typename Visit>
  Status Follow(SequenceId base, const Continuation& continuation, const Visit& visit) {
    SKV_ASSIGN_OR_RETURN(const SequenceId id, cache_->Fork(base));
    const HeldSequence sequence(cache_.get(), id);
    const int first = continuation.first_scored - 1;  // rows [first, last) predict
    const int last = static_cast<int>(continuation.tokens.size()) - 1;
    for (int begin = 0; begin < last; begin += options_.chunk) {
      const int end = std::min(last, begin + options_.chunk);
      Step step;
      step.tokens =
          std::span(continuation.tokens)
              .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
      step.outputs = std::max(0, end - std::max(begin, first));
      SKV_ASSIGN_OR_RETURN(const std::span<const float> logits, Forward(id, step));
      if (step.outputs > 0) visit(std::max(begin, first) + 1, logits);
    }
    return Status::Ok();
  }

  Status KeepExact(SequenceId prefix) {
    for (const Continuation& continuation : document_.continuations) {
      ExactContinuation& exact = exact_.emplace_back();
      SKV_RETURN_IF_ERROR(
          Follow(prefix, continuation, [&exact](int, std::span<const float> logits) {
            exact.logits.insert(exact.logits.end(), logits.begin(), logits.end());
          }));
    }
    return Status::Ok();
  }

  Result<CellScore> ScoreCell(const ForgettingCell& cell, SequenceId prefix,
                              const ObservedPrefix& observed) {
    SKV_ASSIGN_OR_RETURN(const SequenceId id, cache_->Fork(prefix));
    const HeldSequence sequence(cache_.get(), id);
    CellScore score;
    score.whole_tokens = KeptTokens(id);
    if (cell.rule != nullptr) SKV_RETURN_IF_ERROR(Compact(cell, id, observed.Of(cell)));
    score.kept_tokens = KeptTokens(id);
    score.bytes = cache_->HeldBytes(id);
    score.bits_per_value = cache_->bits_per_value(id);
    for (std::size_t i = 0; i < document_.continuations.size(); ++i) {
      SKV_ASSIGN_OR_RETURN(std::vector<ScoredToken> tokens, ScoreContinuation(id, i));
      score.continuations.push_back(std::move(tokens));
    }
    return score;
  }

  Status Compact(const ForgettingCell& cell, SequenceId sequence, const QueryCapture* queries) {
    CompactionTask task;
    task.sequence = sequence;
    task.rule = cell.rule;
    task.model = model_;
    task.queries = queries;
    task.uses_figures = cell.rule->figures != nullptr;
    CompactionJob job(*cache_, task);
    while (!job.scored()) SKV_RETURN_IF_ERROR(job.Score(*cache_, &team_));
    return job.Compact(cache_.get()).status();
  }

  // Entries of all heads that forget.
  std::int64_t KeptTokens(SequenceId sequence) const {
    std::int64_t tokens = 0;
    std::vector<PageRun> runs;
    for (int layer = 0; layer < cache_->num_layers(); ++layer) {
      if (cache_->layer(layer).window > 0) continue;
      runs.clear();
      cache_->AppendRuns(sequence, layer, 0, &runs);
      for (const PageRun& run : runs) {
        tokens += static_cast<std::int64_t>(run.num_tokens) * (run.end_head - run.first_head);
      }
    }
    return tokens;
  }

  Result<std::vector<ScoredToken>> ScoreContinuation(SequenceId base, std::size_t index) {
    const Continuation& continuation = document_.continuations[index];
    std::vector<ScoredToken> scored(continuation.tokens.size() -
                                    static_cast<std::size_t>(continuation.first_scored));
    SKV_RETURN_IF_ERROR(Follow(base, continuation, [&](int first, std::span<const float> logits) {
      const int rows = static_cast<int>(logits.size() / vocabulary_);
      team_.Run([&](int thread, int num_threads) {
        for (int row = thread; row < rows; row += num_threads) {
          const auto token = static_cast<std::size_t>(first + row);
          const auto at = token - static_cast<std::size_t>(continuation.first_scored);
          scored[at] =
              ScoreToken(logits.subspan(static_cast<std::size_t>(row) * vocabulary_, vocabulary_),
                         continuation.tokens[token], index, at);
        }
      });
    }));
    return scored;
  }

  ScoredToken ScoreToken(std::span<const float> logits, TokenId next, std::size_t continuation,
                         std::size_t at) const {
    ScoredToken scored;
    const auto best = std::max_element(logits.begin(), logits.end());
    scored.hit = best - logits.begin() == next;
    if (compares()) {
      const auto exact =
          std::span(exact_[continuation].logits).subspan(at * vocabulary_, vocabulary_);
      const Divergence divergence = CompareDistributions(exact, logits, next);
      scored.kld = divergence.kld;
      scored.nll = divergence.nll;
      scored.same_top1 = divergence.same_top1;
      return scored;
    }
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit - *best));
    scored.nll =
        std::log(sum) - static_cast<double>(logits[static_cast<std::size_t>(next)] - *best);
    return scored;
  }

  LanguageModel* model_;
  const RecallDocument& document_;
  std::span<const ForgettingCell> cells_;
  const ForgettingRunOptions& options_;
  const std::atomic<bool>* cancel_;
  ThreadTeam team_;
  std::size_t vocabulary_;  // logits of a position
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Executor> executor_;
  std::vector<ExactContinuation> exact_;  // [continuations] of kText
};

}  // namespace

Status ScoreDocument(LanguageModel* model, const RecallDocument& document,
                     std::span<const ForgettingCell> cells, const ForgettingRunOptions& options,
                     const CellSink& sink, const std::atomic<bool>* cancel) {
  return DocumentRun(model, document, cells, options, cancel).Run(sink);
}

}  // namespace swiftkv
