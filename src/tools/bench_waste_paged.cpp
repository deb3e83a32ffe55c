// SPDX-License-Identifier: Apache-2.0
// Drives a KvCache without a model and reads its page tables, its balance and smaps.
#include "tools/bench_waste_paged.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/process_mappings.h"
#include "base/status_macros.h"
#include "cache/mapped_range.h"
#include "tools/kernel_view.h"

namespace swiftkv {
namespace {

class PagedAllocator final : public RequestAllocator {
 public:
  PagedAllocator(std::unique_ptr<KvCache> cache, const AllocatorSpec& spec)
      : cache_(std::move(cache)), seats_(static_cast<std::size_t>(spec.seats)) {}

  Status Start(int seat, const RequestLengths&) override {
    SKV_CHECK(!At(seat).is_taken);
    SKV_ASSIGN_OR_RETURN(At(seat).sequence, cache_->CreateSequence());
    At(seat).is_taken = true;
    return Status::Ok();
  }

  Status Append(int seat, int tokens) override {
    const SequenceId sequence = At(seat).sequence;
    SKV_RETURN_IF_ERROR(cache_->Reserve(sequence, tokens));
    TouchFreshFrames(sequence, tokens);
    cache_->Commit(sequence, tokens);
    return Status::Ok();
  }

  void End(int seat) override {
    cache_->Release(At(seat).sequence);
    At(seat).is_taken = false;
  }

  std::int64_t AllocatedSlots(int seat) const override {
    std::int64_t slots = 0;
    for (const PageRun& run : Runs(At(seat).sequence, 0)) slots += run.num_pages * kPageTokens;
    return slots;
  }

  double ExternalSlots() const override {
    return static_cast<double>(cache_->Balance().free_bytes) /
           static_cast<double>(cache_->bytes_per_token());
  }

  std::uint64_t FilledBytes() const override {
    std::uint64_t filled = 0;
    std::uint64_t held = 0;
    for (const SeatState& seat : seats_) {
      if (!seat.is_taken) continue;
      for (const PageRun& run : Runs(seat.sequence, 0)) {
        filled += static_cast<std::uint64_t>(run.num_tokens) * (run.frame_stride / kPageTokens);
        held += static_cast<std::uint64_t>(run.num_pages) * run.frame_stride;
      }
    }
    SKV_CHECK(held == cache_->Balance().live_private_bytes, "requests hold every live frame");
    return filled;
  }

  // Bookkeeping on the heap cannot be told from other heap; it is what the cache charges.
  Result<std::uint64_t> ResidentBytes() override {
    std::uint64_t bytes = cache_->Balance().metadata_heap_bytes;
    SKV_ASSIGN_OR_RETURN(const std::vector<ProcessMapping> mappings, ReadMappings("/proc/self"));
    for (const ProcessMapping& mapping : mappings) {
      const MappingKind kind = KindOf(mapping, frame_bases_);
      if (kind != MappingKind::kPages && kind != MappingKind::kMetadata) continue;
      bytes += mapping.private_dirty_bytes;
    }
    return bytes;
  }

 private:
  struct SeatState {
    SequenceId sequence{};
    bool is_taken = false;
  };

  SeatState& At(int seat) { return seats_[static_cast<std::size_t>(seat)]; }
  const SeatState& At(int seat) const { return seats_[static_cast<std::size_t>(seat)]; }

  // Every layer's pages lie in the same frames.
  std::vector<PageRun> Runs(SequenceId sequence, int extra_tokens) const {
    std::vector<PageRun> runs;
    cache_->AppendRuns(sequence, 0, extra_tokens, &runs);
    return runs;
  }

  // The first token of a block is a row in each of its pages' planes, and so in each OS page of its
  // frame.
  void TouchFreshFrames(SequenceId sequence, int tokens) {
    const std::int64_t first = (cache_->Length(sequence) + kPageTokens - 1) / kPageTokens;
    for (const PageRun& run : Runs(sequence, tokens)) {
      if (std::find(frame_bases_.begin(), frame_bases_.end(), run.base) == frame_bases_.end()) {
        frame_bases_.push_back(run.base);
      }
      const std::int64_t skipped =
          std::max<std::int64_t>(0, first - run.first_position / kPageTokens);
      for (std::int64_t page = skipped; page < run.num_pages; ++page) {
        TouchFrame(run.base, run.frames[page] * run.frame_stride, run.frame_stride);
      }
    }
  }

  // Views are read-only; the memory below is not.
  static void TouchFrame(const std::byte* arena, std::size_t begin, std::size_t bytes) {
    volatile std::byte* const frames = const_cast<std::byte*>(arena);
    for (std::size_t at = begin; at < begin + bytes;
         at = (at / OsPageBytes() + 1) * OsPageBytes()) {
      frames[at] = std::byte{1};
    }
  }

  std::unique_ptr<KvCache> cache_;
  std::vector<SeatState> seats_;
  std::vector<const std::byte*> frame_bases_;  // of the size classes that runs have shown
};

}  // namespace

Result<std::unique_ptr<RequestAllocator>> MakePagedAllocator(const AllocatorSpec& spec) {
  KvCacheOptions options;
  options.layers = spec.layers;
  options.key_format = spec.format.key;
  options.value_format = spec.format.value;
  options.memory_bytes = spec.memory_bytes;
  SKV_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache, KvCache::Create(options));
  for (const LayerShape& layer : spec.layers) {
    SKV_CHECK(layer == spec.layers.front() && layer.window == 0, "all layers lie in one frame");
  }
  return std::unique_ptr<RequestAllocator>(new PagedAllocator(std::move(cache), spec));
}

}  // namespace swiftkv
