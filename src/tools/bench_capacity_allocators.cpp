// SPDX-License-Identifier: Apache-2.0
// Finds allocators by name, and the memory of reservations by making them.
#include "tools/bench_capacity_allocators.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "base/status_macros.h"
#include "tools/printable_text.h"

namespace swiftkv {
namespace {

constexpr std::array<CapacityAllocator, 4> kAllocators = {{
    {"contiguous_max", SlotReservation::kContext},
    {"contiguous_pow2", SlotReservation::kPowerOfTwo},
    {"contiguous_exact", SlotReservation::kExact},
    {"paged", SlotReservation::kNone},
}};

// Whether a cache has room for so many sequences of a block.
Result<bool> Holds(const KvCacheOptions& options, int blocks) {
  SKV_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> cache, KvCache::Create(options));
  for (int i = 0; i < blocks; ++i) {
    const Result<SequenceId> sequence = cache->CreateSequence();
    if (!sequence.ok() || !cache->Reserve(*sequence, kPageTokens).ok()) return false;
  }
  return true;
}

}  // namespace

Result<std::vector<CapacityAllocator>> ListCapacityAllocators(const NameList& names) {
  std::vector<CapacityAllocator> allocators;
  for (const std::string& name : names.names) {
    if (name == "all" && names.names.size() == 1)
      return std::vector(kAllocators.begin(), kAllocators.end());
    const auto row =
        std::find_if(kAllocators.begin(), kAllocators.end(),
                     [&](const CapacityAllocator& known) { return name == known.name; });
    if (row == kAllocators.end()) {
      std::string known;
      for (const CapacityAllocator& allocator : kAllocators)
        known += std::string(allocator.name) + ", ";
      return Status::InvalidArgument("allocators are some of " + known +
                                     "all, not: " + PrintableExcerpt(name, 60));
    }
    allocators.push_back(*row);
  }
  return allocators;
}

Result<std::uint64_t> BytesOfReservations(const std::vector<LayerShape>& layers, int count,
                                          int slots) {
  KvCacheOptions options;
  options.layers = layers;
  options.memory_bytes = std::uint64_t{1} << 30;
  SKV_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> sizes, KvCache::Create(options));
  const int blocks = count * ((slots + kPageTokens - 1) / kPageTokens);
  options.memory_bytes = sizes->contiguous_bytes(std::int64_t{blocks} * kPageTokens);
  for (bool holds = false; !holds;) {
    options.memory_bytes += options.memory_bytes / 1000 + 4096;
    SKV_ASSIGN_OR_RETURN(holds, Holds(options, blocks));
  }
  return options.memory_bytes;
}

}  // namespace swiftkv
