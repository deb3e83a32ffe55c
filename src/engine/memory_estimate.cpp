// SPDX-License-Identifier: Apache-2.0
// Adds up peaks of blocks.
#include "engine/memory_estimate.h"

#include <algorithm>

#include "base/saturating.h"
#include "swiftkv/page_view.h"

namespace swiftkv {
namespace {

// Tokens that a choice is expected to grow by before another one ends. Fewer let more in, and have
// more of it computed twice.
constexpr std::int64_t kNextTokens = 48;
// With room for so many, whoever lost its place may have it again though nobody has ended.
constexpr std::int64_t kManyTokens = 128;

// Of a block that is shared in part, whoever writes to it gets a copy.
std::int64_t WholeBlocks(std::int64_t tokens) { return tokens / kPageTokens * kPageTokens; }

// For the known tokens, as many at a time as a step takes, and `growth` more one by one.
std::uint64_t PeakBytes(const KvFootprint& footprint, const MemoryDemand& demand,
                        std::int64_t growth) {
  const std::int64_t from = WholeBlocks(demand.shared);
  const std::int64_t end = demand.tokens + growth;
  const std::int64_t rows =
      std::clamp<std::int64_t>(demand.tokens - demand.computed, 1, demand.step_rows);
  // Each further choice copies the block that the prompt ends in, and grows by itself.
  const std::uint64_t further = footprint.PeakBytes(WholeBlocks(demand.tokens), end, 1);
  return std::max(footprint.PeakBytes(from, demand.tokens, rows),
                  footprint.PeakBytes(from, end, 1)) +
         static_cast<std::uint64_t>(demand.further_choices) * further;
}

}  // namespace

MemoryEstimate EstimateMemory(const KvFootprint& footprint, const MemoryDemand& demand) {
  MemoryEstimate estimate;
  if (demand.reserved > 0) {
    const std::uint64_t bytes = footprint.ReservedBytes(demand.reserved);
    (demand.has_reserved ? estimate.held_bytes : estimate.bytes_to_come) = bytes;
    return estimate;
  }
  const std::uint64_t beside = demand.beside > 0 ? footprint.OwnBytes(0, demand.beside) : 0;
  const std::uint64_t next =
      PeakBytes(footprint, demand, std::min(demand.growth, kNextTokens)) + beside;
  const std::uint64_t many =
      PeakBytes(footprint, demand, std::min(demand.growth, kManyTokens)) + beside;
  if (demand.computed > demand.shared) {
    estimate.held_bytes = footprint.OwnBytes(WholeBlocks(demand.shared), demand.computed);
  }
  estimate.bytes_to_come = SaturatingSubtract(next, estimate.held_bytes);
  estimate.bytes_to_grow = SaturatingSubtract(many, next);
  return estimate;
}

}  // namespace swiftkv
