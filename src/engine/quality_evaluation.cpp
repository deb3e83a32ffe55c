// SPDX-License-Identifier: Apache-2.0
// Runs one text through the exact cache and the lossy ones in lockstep.
#include "engine/quality_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "base/thread_team.h"
#include "engine/executor.h"
#include "engine/kv_memory.h"
#include "formats/codec_table.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {
namespace {

constexpr const char* kExactFormat = "f32";

// One cache and the sequence that a window grows in it.
struct Lane {
  std::string key_format;
  std::string value_format;
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<Executor> executor;
  SequenceId sequence{};
  std::vector<Divergence> positions;  // of all windows so far; none for the exact lane
};

// Tokens of a step whose logits stay within the bound.
int BoundedChunk(int chunk, int vocabulary) {
  const std::uint64_t row_bytes = static_cast<std::uint64_t>(vocabulary) * sizeof(float);
  const auto most = static_cast<int>(std::max<std::uint64_t>(1, kMaxChunkLogitBytes / row_bytes));
  return most >= kPageTokens ? std::min(chunk, most / kPageTokens * kPageTokens) : most;
}

class LockstepRun {
 public:
  LockstepRun(LanguageModel* model, const QualityTask& task, const ProgressCallback& progress,
              const std::atomic<bool>* cancel)
      : model_(model),
        task_(task),
        progress_(progress),
        cancel_(cancel),
        team_(model->threads()),
        vocabulary_(static_cast<std::size_t>(model->spec().vocab_size)) {}

  Result<QualityReport> Run() {
    const auto tokens = static_cast<std::int64_t>(task_.tokens.size());
    context_ = static_cast<int>(
        std::min<std::int64_t>(tokens, std::min(task_.context, model_->context())));
    if (context_ < kLeastWindowTokens) {
      return Status::InvalidArgument(
          fmt::format("measuring needs a text and a context of at least {} tokens, got {}",
                      kLeastWindowTokens, context_));
    }
    chunk_ = BoundedChunk(std::min({task_.chunk, context_, model_->max_batch_rows()}),
                          model_->spec().vocab_size);
    windows_ = static_cast<int>(tokens / context_);
    SKV_RETURN_IF_ERROR(MakeLanes());
    for (int window = 0; window < windows_; ++window) SKV_RETURN_IF_ERROR(RunWindow(window));
    return Report();
  }

 private:
  Status MakeLanes() {
    SKV_ASSIGN_OR_RETURN(const PageCodec* exact, FindCodec(kExactFormat));
    SKV_RETURN_IF_ERROR(AddLane({exact, exact}));
    for (const PageFormat& format : task_.formats) SKV_RETURN_IF_ERROR(AddLane(format));
    return Status::Ok();
  }

  // A lane holds at most what f32 takes, in as many frames as any layout needs; what it does not
  // fill is never mapped.
  Status AddLane(const PageFormat& format) {
    KvCacheOptions options;
    options.layers = model_->layer_shapes();
    options.key_format = format.key->info().name;
    options.value_format = format.value->info().name;
    SKV_ASSIGN_OR_RETURN(const KvFootprint widest,
                         KvFootprint::Make(options.layers, kExactFormat, kExactFormat));
    constexpr std::uint64_t kMetadataBytes = 64ULL << 20;
    // Without regard to windows: a step's rows are stored before the oldest ones go.
    options.memory_bytes =
        2 * widest.TokenBytes() * static_cast<std::uint64_t>(context_ + kPageTokens) +
        kMetadataBytes;
    options.key_guides = task_.key_guides;
    Lane lane;
    lane.key_format = options.key_format;
    lane.value_format = options.value_format;
    SKV_ASSIGN_OR_RETURN(lane.cache, KvCache::Create(options));
    lane.executor = std::make_unique<Executor>(model_, lane.cache.get());
    lanes_.push_back(std::move(lane));
    return Status::Ok();
  }

  Status RunWindow(int window) {
    const auto first = static_cast<std::ptrdiff_t>(window) * context_;
    window_.assign(task_.tokens.begin() + first, task_.tokens.begin() + first + context_);
    if (task_.bos != kNoToken) window_.front() = task_.bos;
    for (Lane& lane : lanes_) {
      SKV_ASSIGN_OR_RETURN(lane.sequence, lane.cache->CreateSequence());
    }
    for (int begin = 0; begin < context_; begin += chunk_) {
      SKV_RETURN_IF_ERROR(RunChunk(window, begin, std::min(begin + chunk_, context_)));
    }
    if (window + 1 == windows_) return Status::Ok();  // the report looks at the last window's end
    for (Lane& lane : lanes_) lane.cache->Release(lane.sequence);
    return Status::Ok();
  }

  Status RunChunk(int window, int begin, int end) {
    const int first_counted = std::clamp(context_ / 2, begin, end);
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      const double lanes = static_cast<double>(i) / static_cast<double>(lanes_.size());
      const double done = (window + (begin + lanes * (end - begin)) / context_) / windows_;
      if (progress_ && !progress_(done)) return Status::Cancelled("measuring was stopped");
      SKV_ASSIGN_OR_RETURN(const std::span<const float> logits,
                           Forward(&lanes_[i], begin, end, end - first_counted));
      if (i == 0) {
        exact_logits_.assign(logits.begin(), logits.end());
      } else {
        Compare(first_counted, std::min(end, context_ - 1), logits, &lanes_[i]);
      }
    }
    return Status::Ok();
  }

  Result<std::span<const float>> Forward(Lane* lane, int begin, int end, int outputs) {
    StepPlan plan;
    plan.tokens.assign(window_.begin() + begin, window_.begin() + end);
    PlannedSlice slice;
    slice.is_prefill = true;
    slice.allowed = Quality::kAny;
    slice.rows.sequence = lane->sequence;
    slice.rows.first_position = begin;
    slice.rows.num_rows = end - begin;
    slice.rows.num_outputs = outputs;
    plan.slices.push_back(slice);
    return lane->executor->Execute(plan, cancel_);
  }

  // Compares positions [begin, end); the first row of both logits is position `begin`.
  void Compare(int begin, int end, std::span<const float> logits, Lane* lane) {
    if (begin >= end) return;
    const std::size_t before = lane->positions.size();
    lane->positions.resize(before + static_cast<std::size_t>(end - begin));
    team_.Run([&](int thread, int num_threads) {
      for (int position = begin + thread; position < end; position += num_threads) {
        const auto row = static_cast<std::size_t>(position - begin);
        lane->positions[before + row] = CompareDistributions(
            std::span<const float>(exact_logits_).subspan(row * vocabulary_, vocabulary_),
            logits.subspan(row * vocabulary_, vocabulary_),
            window_[static_cast<std::size_t>(position) + 1]);
      }
    });
  }

  Result<QualityReport> Report() const {
    QualityReport report;
    report.context = context_;
    report.chunk = chunk_;
    report.windows = windows_;
    for (std::size_t i = 1; i < lanes_.size(); ++i) {
      const Lane& lane = lanes_[i];
      FormatQuality row;
      row.format = PageFormatName(task_.formats[i - 1]);
      row.loss = SummarizeDivergences(lane.positions);
      SKV_ASSIGN_OR_RETURN(
          const KvFootprint footprint,
          KvFootprint::Make(model_->layer_shapes(), lane.key_format, lane.value_format));
      row.bytes = footprint.FilledBytes(context_);
      row.bits_per_value = lane.cache->bits_per_value(lane.sequence);
      report.rows.push_back(std::move(row));
    }
    return report;
  }

  LanguageModel* model_;
  const QualityTask& task_;
  const ProgressCallback& progress_;
  const std::atomic<bool>* cancel_;
  ThreadTeam team_;
  std::size_t vocabulary_;  // logits of a position

  int context_ = 0;
  int chunk_ = 0;
  int windows_ = 0;
  std::vector<Lane> lanes_;          // the exact one first
  std::vector<TokenId> window_;      // [context_]
  std::vector<float> exact_logits_;  // [counted positions of a step, vocabulary_]
};

}  // namespace

Result<QualityReport> EvaluateQuality(LanguageModel* model, const QualityTask& task,
                                      const ProgressCallback& progress,
                                      const std::atomic<bool>* cancel) {
  return LockstepRun(model, task, progress, cancel).Run();
}

}  // namespace swiftkv
