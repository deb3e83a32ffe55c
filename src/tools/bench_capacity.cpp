// SPDX-License-Identifier: Apache-2.0
// Implements the measurement of capacity.
#include "tools/bench_capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "engine/engine_thread.h"
#include "model/language_model.h"
#include "model/vocabulary.h"
#include "swiftkv/attention.h"
#include "tools/bench_capacity_allocators.h"
#include "tools/bench_formats.h"
#include "tools/interrupt.h"
#include "tools/key_guide_store.h"
#include "tools/linear_store.h"
#include "tools/model_path.h"

namespace swiftkv {
namespace {

class CapacityBench {
 public:
  CapacityBench(const BenchCapacityOptions& options, const CapacityBenchProgress& progress)
      : options_(options), progress_(progress) {}

  Status Load();
  Status MeasureAll(CapacityBenchResult* result);
  void Describe(CapacityBenchResult* result) const;

 private:
  struct Plan {
    CapacityAllocator allocator;
    BenchFormat format;
  };

  Status ChooseRows();
  Result<CapacityRow> Measure(const Plan& plan, int reservations,
                              const std::function<bool(double done)>& progress);

  const BenchCapacityOptions& options_;
  const CapacityBenchProgress& progress_;
  std::string path_;
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<Vocabulary> vocabulary_;
  std::shared_ptr<const KeyGuides> guides_;  // null where no format has scales
  std::vector<Plan> plans_;
  std::vector<CapacityRequest> requests_;
};

Status CapacityBench::Load() {
  SKV_ASSIGN_OR_RETURN(path_, ResolveModelPath(options_.model.path, ProcessEnvironment()));
  ModelOptions model = options_.model;
  model.path = path_;
  model.linear_memo = ProcessLinearMemo();
  SKV_ASSIGN_OR_RETURN(model_, LanguageModel::Load(model, nullptr));
  SKV_ASSIGN_OR_RETURN(vocabulary_, Vocabulary::Load(path_));
  SKV_RETURN_IF_ERROR(ChooseRows());
  SKV_ASSIGN_OR_RETURN(requests_, MakeCapacityRequests(options_, vocabulary_->size()));
  return Status::Ok();
}

Status CapacityBench::ChooseRows() {
  SKV_ASSIGN_OR_RETURN(const std::vector<BenchFormat> formats, ListBenchFormats(options_.formats));
  SKV_ASSIGN_OR_RETURN(const std::vector<BenchFormat> exact, ListBenchFormats({{"f16"}}));
  SKV_ASSIGN_OR_RETURN(const auto allocators, ListCapacityAllocators(options_.allocators));
  const std::vector<int>& sizes = options_.reservations.values;
  SKV_ASSIGN_OR_RETURN(
      const std::uint64_t bytes,
      BytesOfReservations(model_->layer_shapes(), *std::max_element(sizes.begin(), sizes.end()),
                          options_.max_length));
  for (const CapacityAllocator& allocator : allocators) {
    const bool pages = allocator.reservation == SlotReservation::kNone;
    for (const BenchFormat& format : pages ? formats : exact) {
      plans_.push_back({allocator, format});
      if (guides_ != nullptr || !format.format.key->info().has_scales) continue;
      SKV_ASSIGN_OR_RETURN(guides_, ProcessKeyGuideStore().Guides(model_.get(), *vocabulary_, bytes,
                                                                  InterruptFlag()));
    }
  }
  return Status::Ok();
}

Result<CapacityRow> CapacityBench::Measure(const Plan& plan, int reservations,
                                           const std::function<bool(double done)>& progress) {
  const KvFormat format = {plan.format.format.key->info().name,
                           plan.format.format.value->info().name};
  KvCacheOptions options;
  options.layers = model_->layer_shapes();
  options.key_format = format.key;
  options.value_format = format.value;
  options.model_fingerprint = model_->fingerprint();
  if (plan.format.format.key->info().has_scales) options.key_guides = guides_;
  SKV_ASSIGN_OR_RETURN(options.memory_bytes,
                       BytesOfReservations(options.layers, reservations, options_.max_length));
  SKV_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> cache, KvCache::Create(options));
  const EngineParts parts = {.model = model_.get(),
                             .vocabulary = vocabulary_.get(),
                             .cache = cache.get(),
                             .format = format};
  const EngineLimits limits = {.max_sequences = options_.batch,
                               .reservation = plan.allocator.reservation};
  CapacityRow row;
  row.allocator = plan.allocator.name;
  row.format = plan.format.name;
  row.reservations = reservations;
  row.memory_bytes = options.memory_bytes;
  SKV_ASSIGN_OR_RETURN(row.figures, ServeCapacityRequests(parts, limits, requests_, progress));
  return row;
}

Status CapacityBench::MeasureAll(CapacityBenchResult* result) {
  const std::vector<int>& sizes = options_.reservations.values;
  const auto rows = static_cast<double>(sizes.size() * plans_.size());
  for (const int reservations : sizes) {
    for (const Plan& plan : plans_) {
      const auto before = static_cast<double>(result->rows.size());
      const std::string name = fmt::format("{} reservations, {} {}", reservations,
                                           plan.allocator.name, plan.format.name);
      SKV_ASSIGN_OR_RETURN(CapacityRow row, Measure(plan, reservations, [&](double done) {
                             return progress_((before + done) / rows, name);
                           }));
      result->rows.push_back(std::move(row));
    }
  }
  return Status::Ok();
}

void CapacityBench::Describe(CapacityBenchResult* result) const {
  result->model = path_;
  result->architecture = model_->spec().architecture;
  result->threads = model_->threads();
  for (const CapacityRequest& request : requests_) {
    const auto count = static_cast<double>(requests_.size());
    result->mean_prompt += static_cast<double>(request.prompt.size()) / count;
    result->mean_output += request.output / count;
  }
}

}  // namespace

Result<CapacityBenchResult> RunCapacityBench(const BenchCapacityOptions& options,
                                             const CapacityBenchProgress& progress) {
  CapacityBench bench(options, progress);
  SKV_RETURN_IF_ERROR(bench.Load());
  CapacityBenchResult result;
  bench.Describe(&result);
  const Status measured = bench.MeasureAll(&result);
  if (!measured.ok() && measured.code() != StatusCode::kCancelled) return measured;
  return result;
}

}  // namespace swiftkv
