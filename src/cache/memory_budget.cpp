// SPDX-License-Identifier: Apache-2.0
// Counts charges against the bound.
#include "cache/memory_budget.h"

#include <algorithm>

#include "base/check.h"

namespace swiftkv {

bool MemoryBudget::TryCharge(std::uint64_t bytes) {
  if (bytes > left_bytes()) return false;
  used_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  return true;
}

void MemoryBudget::Uncharge(std::uint64_t bytes) {
  SKV_CHECK(bytes <= used_bytes_);
  used_bytes_ -= bytes;
}

void MemoryBudget::RestorePeak(std::uint64_t bytes) {
  SKV_CHECK(bytes >= used_bytes_ && bytes <= peak_bytes_);
  peak_bytes_ = bytes;
}

}  // namespace swiftkv
