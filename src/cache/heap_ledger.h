// SPDX-License-Identifier: Apache-2.0
// Charges bookkeeping that lies on the heap: its capacity in bytes, rounded up to OS pages in
// total.
#pragma once

#include <cstdint>

#include "cache/mapped_range.h"
#include "cache/memory_budget.h"

namespace swiftkv {

class HeapLedger {
 public:
  explicit HeapLedger(MemoryBudget* budget) : budget_(budget) {}

  // Returns whether TryAdd(bytes) would succeed.
  bool HasRoom(std::uint64_t bytes) const {
    return PageBytes(bytes_ + bytes) - charged_bytes() <= budget_->left_bytes();
  }

  // Books `bytes` more, or changes nothing and returns false where the budget has no room.
  [[nodiscard]] bool TryAdd(std::uint64_t bytes) {
    if (!budget_->TryCharge(PageBytes(bytes_ + bytes) - charged_bytes())) return false;
    bytes_ += bytes;
    return true;
  }

  void Remove(std::uint64_t bytes) {
    const std::uint64_t before = charged_bytes();
    bytes_ -= bytes;
    budget_->Uncharge(before - charged_bytes());
  }

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t charged_bytes() const { return PageBytes(bytes_); }

 private:
  static std::uint64_t PageBytes(std::uint64_t bytes) { return OsPages(bytes) * OsPageBytes(); }

  MemoryBudget* budget_;
  std::uint64_t bytes_ = 0;
};

}  // namespace swiftkv
