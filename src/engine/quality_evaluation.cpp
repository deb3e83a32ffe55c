// SPDX-License-Identifier: Apache-2.0
// Runs one text through the exact cache and the lossy ones in lockstep.
#include "engine/quality_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/byte_size.h"
#include "base/status_macros.h"
#include "base/thread_team.h"
#include "cache/format_names.h"
#include "engine/executor.h"
#include "engine/kv_memory.h"
#include "formats/codec_table.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {
namespace {

constexpr const char* kExactFormat = "f32";

// One format and the sequence that a window grows in it.
struct Lane {
  KvFormat format;
  std::uint64_t most_bytes = 0;  // of the cache, that the sequence may take
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
    QualityReport report;
    report.context = context_;
    report.chunk = chunk_;
    report.windows = windows_;
    while (measured_ < lanes_.size()) SKV_RETURN_IF_ERROR(RunPass(&report));
    return report;
  }

 private:
  Status MakeLanes() {
    SKV_ASSIGN_OR_RETURN(const PageCodec* exact, FindCodec(kExactFormat));
    SKV_ASSIGN_OR_RETURN(const Lane exact_lane, MakeLane({exact, exact}));
    lanes_.push_back(exact_lane);
    for (const PageFormat& format : task_.formats) {
      SKV_ASSIGN_OR_RETURN(Lane lane, MakeLane(format));
      lanes_.push_back(std::move(lane));
    }
    return Status::Ok();
  }

  Result<Lane> MakeLane(const PageFormat& format) const {
    constexpr std::uint64_t kMetadataBytes = 256ULL << 10;
    Lane lane;
    lane.format = NamesOf(format);
    const std::vector<LayerShape> layers = model_->layer_shapes();
    SKV_ASSIGN_OR_RETURN(const KvFootprint footprint,
                         KvFootprint::Make(layers, lane.format.key, lane.format.value));
    SKV_ASSIGN_OR_RETURN(const KvFootprint widest,
                         KvFootprint::Make(layers, kExactFormat, kExactFormat));
    // A step's rows are stored before the oldest ones leave windows or are re-encoded.
    const auto step = static_cast<std::uint64_t>(chunk_ + 2 * kPageTokens);
    const std::uint64_t pages = footprint.PageBytes(context_) + widest.TokenBytes() * step;
    lane.most_bytes = pages + pages / 128 + kMetadataBytes;
    return lane;
  }

  // Makes the cache of a pass: the exact lane and as many of those not measured yet as fit.
  Status OpenCache() {
    std::uint64_t bytes = lanes_[0].most_bytes + lanes_[measured_].most_bytes;
    if (task_.kv_bytes != 0 && bytes > task_.kv_bytes) {
      return Status::ResourceExhausted(fmt::format(
          "measuring over {} tokens takes {} of KV memory for {} beside the exact cache; allow as "
          "much, or choose a shorter context, than: {}",
          context_, FormatByteSize(bytes), PageFormatName(task_.formats[measured_ - 1]),
          FormatByteSize(task_.kv_bytes)));
    }
    pass_end_ = measured_ + 1;
    while (pass_end_ < lanes_.size() &&
           (task_.kv_bytes == 0 || bytes + lanes_[pass_end_].most_bytes <= task_.kv_bytes)) {
      bytes += lanes_[pass_end_++].most_bytes;
    }
    KvCacheOptions options;
    options.layers = model_->layer_shapes();
    options.key_format = lanes_[0].format.key;
    options.value_format = lanes_[0].format.value;
    options.key_guides = task_.key_guides;
    options.memory_bytes = bytes;
    executor_.reset();
    cache_.reset();  // before the next one is made
    SKV_ASSIGN_OR_RETURN(cache_, KvCache::Create(options));
    executor_ = std::make_unique<Executor>(model_, cache_.get());
    return Status::Ok();
  }

  // Lanes of the pass: the exact one, and [measured_, pass_end_).
  template <typename Visit>
  Status ForLanes(const Visit& visit) {
    SKV_RETURN_IF_ERROR(visit(&lanes_[0]));
    for (std::size_t i = measured_; i < pass_end_; ++i) SKV_RETURN_IF_ERROR(visit(&lanes_[i]));
    return Status::Ok();
  }

  Status RunPass(QualityReport* report) {
    SKV_RETURN_IF_ERROR(OpenCache());
    for (int window = 0; window < windows_; ++window) SKV_RETURN_IF_ERROR(RunWindow(window));
    for (; measured_ < pass_end_; ++measured_) {
      SKV_ASSIGN_OR_RETURN(FormatQuality row, RowOf(measured_));
      report->rows.push_back(std::move(row));
    }
    ++report->passes;
    report->kv_peak_bytes = std::max(report->kv_peak_bytes, cache_->Balance().peak_bytes);
    return Status::Ok();
  }

  Status RunWindow(int window) {
    const auto first = static_cast<std::ptrdiff_t>(window) * context_;
    window_.assign(task_.tokens.begin() + first, task_.tokens.begin() + first + context_);
    if (task_.bos != kNoToken) window_.front() = task_.bos;
    SKV_RETURN_IF_ERROR(ForLanes([this](Lane* lane) {
      SKV_ASSIGN_OR_RETURN(lane->sequence, cache_->CreateSequence(lane->format));
      return Status::Ok();
    }));
    for (int begin = 0; begin < context_; begin += chunk_) {
      SKV_RETURN_IF_ERROR(RunChunk(window, begin, std::min(begin + chunk_, context_)));
    }
    if (window + 1 == windows_) return Status::Ok();  // the report looks at the last window's end
    return ForLanes([this](Lane* lane) {
      cache_->Release(lane->sequence);
      return Status::Ok();
    });
  }

  Status RunChunk(int window, int begin, int end) {
    const int first_counted = std::clamp(context_ / 2, begin, end);
    const double formats = static_cast<double>(lanes_.size()) - 1;
    const double passes_done = static_cast<double>(measured_ - 1) / formats;
    const double pass = static_cast<double>(pass_end_ - measured_) / formats;
    return ForLanes([&](Lane* lane) {
      const double done = (window + static_cast<double>(begin) / context_) / windows_;
      if (progress_ && !progress_(passes_done + pass * done)) {
        return Status::Cancelled("measuring was stopped");
      }
      SKV_ASSIGN_OR_RETURN(const std::span<const float> logits,
                           Forward(lane, begin, end, end - first_counted));
      if (lane == &lanes_[0]) {
        exact_logits_.assign(logits.begin(), logits.end());
      } else {
        Compare(first_counted, std::min(end, context_ - 1), logits, lane);
      }
      return Status::Ok();
    });
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
    return executor_->Execute(plan, cancel_);
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

  Result<FormatQuality> RowOf(std::size_t index) const {
    const Lane& lane = lanes_[index];
    FormatQuality row;
    row.format = PageFormatName(task_.formats[index - 1]);
    row.loss = SummarizeDivergences(lane.positions);
    SKV_ASSIGN_OR_RETURN(
        const KvFootprint footprint,
        KvFootprint::Make(model_->layer_shapes(), lane.format.key, lane.format.value));
    row.bytes = footprint.FilledBytes(context_);
    row.bits_per_value = cache_->bits_per_value(lane.sequence);
    return row;
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
  std::vector<Lane> lanes_;         // the exact one first, then those of the task's formats
  std::size_t measured_ = 1;        // lanes [1, measured_) are
  std::size_t pass_end_ = 1;        // and those up to here are being measured
  std::unique_ptr<KvCache> cache_;  // of the pass
  std::unique_ptr<Executor> executor_;
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
