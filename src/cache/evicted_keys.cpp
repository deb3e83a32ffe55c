// SPDX-License-Identifier: Apache-2.0
// Keeps a direct-mapped table of fingerprints.
#include "cache/evicted_keys.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace swiftkv {
namespace {

constexpr std::uint64_t kShareOfBound = 2048;
constexpr std::uint64_t kMostSlots = std::uint64_t{1} << 16;

}  // namespace

EvictedKeys::EvictedKeys(std::uint64_t limit_bytes, HeapLedger* ledger)
    : slots_(std::bit_floor(
          std::min(limit_bytes / kShareOfBound / sizeof(std::uint64_t), kMostSlots))),
      ledger_(ledger) {}

void EvictedKeys::Add(const BlockKey& key) {
  if (slots_ == 0) return;
  if (table_.empty()) {
    if (!ledger_->TryAdd(slots_ * sizeof(std::uint64_t))) return;
    table_.reserve(slots_);
    SKV_CHECK(table_.capacity() == slots_, "reserve() gives what was asked for");
    table_.resize(slots_);
  }
  const std::uint64_t fingerprint = BlockKeyHash()(key);
  table_[fingerprint & (slots_ - 1)] = fingerprint;
}

bool EvictedKeys::Contains(const BlockKey& key) const {
  if (table_.empty()) return false;
  const std::uint64_t fingerprint = BlockKeyHash()(key);
  return table_[fingerprint & (slots_ - 1)] == fingerprint;
}

bool EvictedKeys::Clear() {
  if (table_.empty()) return false;
  ledger_->Remove(heap_bytes());
  std::vector<std::uint64_t>().swap(table_);
  return true;
}

}  // namespace swiftkv
