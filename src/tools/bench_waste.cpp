// SPDX-License-Identifier: Apache-2.0
// Runs the same requests through every allocator and sums up what each step allocates.
#include "tools/bench_waste.h"

#include <algorithm>
#include <memory>

#include "base/process_memory.h"
#include "base/status_macros.h"
#include "tools/bench_formats.h"
#include "tools/bench_waste_allocator.h"
#include "tools/bench_waste_schedule.h"

namespace swiftkv {
namespace {

// Slots of all steps so far.
struct SlotSums {
  double filled = 0;
  double reserved = 0;
  double internal = 0;
  double external = 0;

  void AddSeat(const BatchSeat& seat, std::int64_t allocated) {
    const auto useful = std::min<std::int64_t>(allocated, seat.lengths.total());
    filled += seat.tokens;
    reserved += static_cast<double>(useful - seat.tokens);
    internal += static_cast<double>(allocated - useful);
  }

  SlotShares Shares() const {
    const double all = std::max(1.0, filled + reserved + internal + external);
    return {filled / all, reserved / all, internal / all, external / all};
  }
};

struct ByteSums {
  double filled = 0;
  double resident = 0;
  std::uint64_t peak_resident = 0;
};

// One allocator, geometry and format.
struct Case {
  NamedAllocator allocator;
  CacheShape shape;
  BenchFormat format;

  std::string name() const {
    return std::string(allocator.name) + " " + shape.name + " " + format.name;
  }
};

Status PlayStep(RequestAllocator* allocator, std::span<const BatchSeat> seats, bool is_first) {
  for (std::size_t i = 0; i < seats.size() && !is_first; ++i) {
    if (seats[i].is_started) allocator->End(static_cast<int>(i));
  }
  for (std::size_t i = 0; i < seats.size(); ++i) {
    const int seat = static_cast<int>(i);
    if (seats[i].is_started) SKV_RETURN_IF_ERROR(allocator->Start(seat, seats[i].lengths));
    SKV_RETURN_IF_ERROR(allocator->Append(seat, seats[i].new_tokens));
  }
  return Status::Ok();
}

class WasteBench {
 public:
  WasteBench(const BenchWasteOptions& options, const WasteBenchProgress& progress)
      : options_(options), progress_(progress) {}

  Result<WasteBenchResult> Run() {
    SKV_ASSIGN_OR_RETURN(const LengthDistribution lengths, FindLengths(options_.lengths));
    requests_ = DrawLengths(lengths, options_.requests, static_cast<std::uint64_t>(options_.seed));
    SKV_RETURN_IF_ERROR(ListCases());
    CountOnPaper();
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      const Status status = Measure(i);
      if (status.code() == StatusCode::kCancelled) break;
      if (status.code() == StatusCode::kResourceExhausted) {
        const Case& item = cases_[i];
        result_.skipped.push_back(
            {item.allocator.name, item.format.name, item.shape.name, status.message()});
      } else {
        SKV_RETURN_IF_ERROR(status);
      }
    }
    return std::move(result_);
  }

 private:
  Status ListCases() {
    SKV_ASSIGN_OR_RETURN(const auto allocators, ListAllocators(options_.allocators));
    SKV_ASSIGN_OR_RETURN(const auto shapes, ListCacheShapes(options_.geometries));
    SKV_ASSIGN_OR_RETURN(const auto formats, ListBenchFormats(options_.formats));
    for (const CacheShape& shape : shapes) {
      for (const NamedAllocator& allocator : allocators) {
        for (const BenchFormat& format : formats) cases_.push_back({allocator, shape, format});
      }
    }
    return Status::Ok();
  }

  // Fills all of the result but its rows.
  void CountOnPaper() {
    for (const RequestLengths& request : requests_) {
      result_.mean_prompt += request.prompt;
      result_.mean_output += request.output;
    }
    result_.mean_prompt /= static_cast<double>(requests_.size());
    result_.mean_output /= static_cast<double>(requests_.size());
    std::vector<SlotSums> sums(options_.block_sizes.values.size());
    double tokens = 0;
    SaturatedSchedule schedule(requests_, options_.batch);
    while (schedule.Step()) {
      ++result_.steps;
      for (const BatchSeat& seat : schedule.seats()) {
        tokens += seat.tokens;
        for (std::size_t i = 0; i < sums.size(); ++i) {
          const int block = options_.block_sizes.values[i];
          sums[i].AddSeat(seat, (seat.tokens + block - 1) / block * block);
        }
      }
    }
    result_.mean_tokens = tokens / static_cast<double>(result_.steps);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      result_.block_sizes.push_back({options_.block_sizes.values[i], sums[i].Shares()});
    }
  }

  // Room for the batch at its longest and, where blocks are re-encoded when they are old, for one
  // request more before that; less where the machine has less.
  Result<AllocatorSpec> SpecOf(const Case& item) const {
    AllocatorSpec spec;
    spec.layers = LayersOf(item.shape);
    spec.format = {item.format.format.key->info().name, item.format.format.value->info().name};
    spec.seats = options_.batch;
    KvCacheOptions sizes;
    sizes.layers = spec.layers;
    sizes.key_format = spec.format.key;
    sizes.value_format = spec.format.value;
    sizes.memory_bytes = std::uint64_t{1} << 30;
    SKV_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> cache, KvCache::Create(sizes));
    constexpr std::uint64_t kBookkeeping = std::uint64_t{8} << 20;
    const auto requests = static_cast<std::uint64_t>(options_.batch) + 1;
    const std::uint64_t wanted =
        requests * cache->contiguous_bytes(kMostRequestTokens) + kBookkeeping;
    std::uint64_t most = options_.memory.bytes;
    if (options_.memory.automatic) {
      SKV_ASSIGN_OR_RETURN(const std::uint64_t available, AvailableBytes());
      most = available - available / 8;
    }
    spec.memory_bytes = std::min(wanted, most);
    return spec;
  }

  // Errors: Cancelled; ResourceExhausted where the memory does not suffice.
  Status Measure(std::size_t index) {
    const Case& item = cases_[index];
    SKV_ASSIGN_OR_RETURN(const AllocatorSpec spec, SpecOf(item));
    SKV_ASSIGN_OR_RETURN(const auto allocator, item.allocator.make(spec));
    SaturatedSchedule schedule(requests_, options_.batch);
    SlotSums slots;
    ByteSums bytes;
    for (std::int64_t step = 0; schedule.Step(); ++step) {
      const double done =
          (static_cast<double>(index) + schedule.progress()) / static_cast<double>(cases_.size());
      if (!progress_(done, item.name())) return Status::Cancelled("stopped");
      SKV_RETURN_IF_ERROR(PlayStep(allocator.get(), schedule.seats(), step == 0));
      SKV_RETURN_IF_ERROR(Look(allocator.get(), schedule.seats(), &slots, &bytes));
    }
    const auto steps = static_cast<double>(result_.steps);
    WasteRow row;
    row.allocator = item.allocator.name;
    row.format = item.format.name;
    row.geometry = item.shape.name;
    row.slots = slots.Shares();
    row.waste_bytes_fraction = 1 - bytes.filled / bytes.resident;
    row.filled_bytes = static_cast<std::uint64_t>(bytes.filled / steps);
    row.resident_bytes = static_cast<std::uint64_t>(bytes.resident / steps);
    row.peak_resident_bytes = bytes.peak_resident;
    row.pool_bytes = spec.memory_bytes;
    result_.rows.push_back(row);
    return Status::Ok();
  }

  static Status Look(RequestAllocator* allocator, std::span<const BatchSeat> seats, SlotSums* slots,
                     ByteSums* bytes) {
    for (std::size_t i = 0; i < seats.size(); ++i) {
      slots->AddSeat(seats[i], allocator->AllocatedSlots(static_cast<int>(i)));
    }
    slots->external += allocator->ExternalSlots();
    SKV_ASSIGN_OR_RETURN(const std::uint64_t resident, allocator->ResidentBytes());
    bytes->filled += static_cast<double>(allocator->FilledBytes());
    bytes->resident += static_cast<double>(resident);
    bytes->peak_resident = std::max(bytes->peak_resident, resident);
    return Status::Ok();
  }

  const BenchWasteOptions& options_;
  const WasteBenchProgress& progress_;
  std::vector<RequestLengths> requests_;
  std::vector<Case> cases_;
  WasteBenchResult result_;
};

}  // namespace

Result<WasteBenchResult> RunWasteBench(const BenchWasteOptions& options,
                                       const WasteBenchProgress& progress) {
  return WasteBench(options, progress).Run();
}

}  // namespace swiftkv
