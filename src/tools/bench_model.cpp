// SPDX-License-Identifier: Apache-2.0
// Implements the measurement of a model.
#include "tools/bench_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>

#include "base/status_macros.h"
#include "model/language_model.h"
#include "tools/bench_parts.h"
#include "tools/bench_pass.h"
#include "tools/bench_sequences.h"

namespace swiftkv {
namespace {

// One format's contexts.
struct Lane {
  std::string format;
  SequenceId growing{};
  std::vector<SequenceId> contexts;    // [stops]
  std::vector<double> prompt_seconds;  // [stops] of computing the context from nothing
};

struct Timed {
  double seconds = 0;
  double attention_share = 0;
  double busy = 0;  // CPU time by time, of each thread
};

class ModelBench {
 public:
  ModelBench(const BenchModelOptions& options, const ModelBenchProgress& progress)
      : options_(options), progress_(progress) {}

  Status Load();
  Status FillContexts();
  Status MeasureAll(ModelBenchResult* result);
  void Describe(ModelBenchResult* result) const;

 private:
  Status OpenCache();
  Status MeasureDepth(int depth, std::vector<ModelRow>* rows);
  Result<Timed> TimePrefill(SequenceId context);
  Result<Timed> TimeDecode(const std::vector<SequenceId>& parents);
  Result<std::vector<SequenceId>> MakeBatch(const Lane& lane, int depth);
  std::size_t StopOf(int depth) const;
  int SharedAt(int depth) const { return std::min(options_.shared_tokens, depth); }
  Status Tell(double done, const std::string& next) const;

  template <typename Work>
  Result<Timed> Time(Work work);

  const BenchModelOptions& options_;
  const ModelBenchProgress& progress_;
  BenchParts parts_;
  std::unique_ptr<BenchSequences> sequences_;
  ForwardTimes times_;
  std::vector<int> stops_;  // ascending depths at which contexts are kept
  std::vector<Lane> lanes_;
};

Status ModelBench::Tell(double done, const std::string& next) const {
  return progress_(done, next) ? Status::Ok() : Status::Cancelled("the bench was stopped");
}

Status ModelBench::Load() {
  SKV_ASSIGN_OR_RETURN(parts_, LoadBenchParts(options_.model, options_.formats));
  parts_.model->set_times(&times_);
  const std::vector<int>& depths = options_.depths.values;
  const int deepest = *std::max_element(depths.begin(), depths.end());
  const int measured = std::max(options_.prefill_tokens, options_.decode_tokens + 1);
  if (deepest + measured > parts_.model->context()) {
    return Status::InvalidArgument(
        fmt::format("a depth and the {} tokens behind it must fit into the context of {} tokens, "
                    "not: {}",
                    measured, parts_.model->context(), deepest));
  }
  if (options_.batch > parts_.model->max_batch_rows()) {
    return Status::InvalidArgument(fmt::format("--batch accepts at most the --chunk of {}, got {}",
                                               parts_.model->max_batch_rows(), options_.batch));
  }
  return OpenCache();
}

Status ModelBench::OpenCache() {
  SKV_RETURN_IF_ERROR(OpenBenchCache(options_.memory, &parts_));
  sequences_ = std::make_unique<BenchSequences>(parts_.model.get(), parts_.cache.get());
  for (const BenchFormat& format : parts_.formats) {
    Lane lane;
    lane.format = format.name;
    SKV_ASSIGN_OR_RETURN(lane.growing, parts_.cache->CreateSequence(KvFormatOf(format)));
    lanes_.push_back(lane);
  }
  stops_ = options_.depths.values;
  if (options_.batch > 1) {
    for (const int depth : options_.depths.values) stops_.push_back(SharedAt(depth));
  }
  std::sort(stops_.begin(), stops_.end());
  stops_.erase(std::unique(stops_.begin(), stops_.end()), stops_.end());
  return Status::Ok();
}

std::size_t ModelBench::StopOf(int depth) const {
  return static_cast<std::size_t>(std::find(stops_.begin(), stops_.end(), depth) - stops_.begin());
}

template <typename Work>
Result<Timed> ModelBench::Time(Work work) {
  times_ = {};
  const std::clock_t cpu_start = std::clock();
  const auto start = std::chrono::steady_clock::now();
  SKV_RETURN_IF_ERROR(work());
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  const double cpu_seconds = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  return Timed{passed.count(), times_.attention_seconds / passed.count(),
               cpu_seconds / passed.count() / parts_.model->threads()};
}

Status ModelBench::FillContexts() {
  const int deepest = stops_.back();
  std::vector<double> spent(lanes_.size());
  int length = 0;
  for (const int stop : stops_) {
    while (length < stop) {
      const int rows = std::min(stop - length, parts_.model->max_batch_rows());
      SKV_RETURN_IF_ERROR(Tell(0.5 * length / deepest, fmt::format("context of {}", stop)));
      for (std::size_t i = 0; i < lanes_.size(); ++i) {
        SKV_ASSIGN_OR_RETURN(const Timed chunk,
                             Time([&] { return sequences_->Append(lanes_[i].growing, rows); }));
        spent[i] += chunk.seconds;
      }
      length += rows;
    }
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      SKV_ASSIGN_OR_RETURN(const SequenceId context, parts_.cache->Fork(lanes_[i].growing));
      lanes_[i].contexts.push_back(context);
      lanes_[i].prompt_seconds.push_back(spent[i]);
    }
  }
  return Status::Ok();
}

Result<Timed> ModelBench::TimePrefill(SequenceId context) {
  SKV_ASSIGN_OR_RETURN(const SequenceId sequence, parts_.cache->Fork(context));
  const Result<Timed> timed =
      Time([&] { return sequences_->Append(sequence, options_.prefill_tokens); });
  parts_.cache->Release(sequence);
  return timed;
}

Result<Timed> ModelBench::TimeDecode(const std::vector<SequenceId>& parents) {
  std::vector<SequenceId> batch;
  for (const SequenceId parent : parents) {
    SKV_ASSIGN_OR_RETURN(const SequenceId sequence, parts_.cache->Fork(parent));
    batch.push_back(sequence);
  }
  // The first step builds the graph of a batch of this size, and copies partial pages.
  SKV_RETURN_IF_ERROR(sequences_->Step(batch));
  const Result<Timed> timed = Time([&] {
    for (int i = 0; i < options_.decode_tokens; ++i) {
      SKV_RETURN_IF_ERROR(sequences_->Step(batch));
    }
    return Status::Ok();
  });
  for (const SequenceId sequence : batch) parts_.cache->Release(sequence);
  return timed;
}

Result<std::vector<SequenceId>> ModelBench::MakeBatch(const Lane& lane, int depth) {
  std::vector<SequenceId> batch;
  const SequenceId prefix = lane.contexts[StopOf(options_.batch > 1 ? SharedAt(depth) : depth)];
  const SequenceId whole = lane.contexts[StopOf(depth)];
  for (int i = 0; i < options_.batch; ++i) {
    // The first one is the context itself.
    SKV_ASSIGN_OR_RETURN(const SequenceId sequence, i == 0 ? parts_.cache->Fork(whole)
                                                           : sequences_->CopyBehind(prefix, whole));
    batch.push_back(sequence);
  }
  return batch;
}

Status ModelBench::MeasureDepth(int depth, std::vector<ModelRow>* rows) {
  std::vector<std::vector<SequenceId>> batches;
  for (const Lane& lane : lanes_) {
    SKV_ASSIGN_OR_RETURN(std::vector<SequenceId> batch, MakeBatch(lane, depth));
    batches.push_back(std::move(batch));
  }
  std::vector<std::vector<Timed>> prefills(lanes_.size());
  std::vector<std::vector<Timed>> decodes(lanes_.size());
  for (int round = 0; round < options_.rounds; ++round) {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      const std::size_t depths_done = rows->size() / lanes_.size();
      const double part =
          static_cast<double>(depths_done) + static_cast<double>(round) / options_.rounds;
      const auto depths = static_cast<double>(options_.depths.values.size());
      SKV_RETURN_IF_ERROR(Tell(0.5 + 0.5 * part / depths, fmt::format("depth {}", depth)));
      SKV_ASSIGN_OR_RETURN(const Timed prefill, TimePrefill(lanes_[i].contexts[StopOf(depth)]));
      SKV_ASSIGN_OR_RETURN(const Timed decode, TimeDecode(batches[i]));
      prefills[i].push_back(prefill);
      decodes[i].push_back(decode);
    }
  }
  const auto median = [](const std::vector<Timed>& times, double Timed::*field) {
    std::vector<double> values;
    for (const Timed& time : times) values.push_back(time.*field);
    return Median(std::move(values));
  };
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    ModelRow row;
    row.format = lanes_[i].format;
    row.depth = depth;
    row.batch = options_.batch;
    row.shared_tokens = options_.batch > 1 ? SharedAt(depth) : 0;
    if (depth > 0) row.prompt_tps = depth / lanes_[i].prompt_seconds[StopOf(depth)];
    row.prefill_tps = options_.prefill_tokens / median(prefills[i], &Timed::seconds);
    row.prefill_attention_share = median(prefills[i], &Timed::attention_share);
    row.decode_tps = options_.decode_tokens * options_.batch / median(decodes[i], &Timed::seconds);
    row.decode_attention_share = median(decodes[i], &Timed::attention_share);
    row.busy = std::min(median(prefills[i], &Timed::busy), median(decodes[i], &Timed::busy));
    rows->push_back(row);
    for (const SequenceId sequence : batches[i]) parts_.cache->Release(sequence);
  }
  return Status::Ok();
}

Status ModelBench::MeasureAll(ModelBenchResult* result) {
  for (const int depth : options_.depths.values) {
    SKV_RETURN_IF_ERROR(MeasureDepth(depth, &result->rows));
  }
  return Status::Ok();
}

void ModelBench::Describe(ModelBenchResult* result) const {
  result->model = parts_.path;
  result->architecture = parts_.model->spec().architecture;
  result->threads = parts_.model->threads();
}

}  // namespace

Result<ModelBenchResult> RunModelBench(const BenchModelOptions& options,
                                       const ModelBenchProgress& progress) {
  ModelBench bench(options, progress);
  ModelBenchResult result;
  SKV_RETURN_IF_ERROR(bench.Load());
  bench.Describe(&result);
  Status status = bench.FillContexts();
  if (status.ok()) status = bench.MeasureAll(&result);
  if (status.ok() || status.code() == StatusCode::kCancelled) return result;
  return status;
}

}  // namespace swiftkv
