// SPDX-License-Identifier: Apache-2.0
// Holds the one hard bound of memory that everything in a cache is charged to.
//
// Owner: the cache's thread. Charges come before the first touch of what they stand for, so what
// the kernel counts never passes the bound.
#pragma once

#include <cstdint>

namespace swiftkv {

class MemoryBudget {
 public:
  explicit MemoryBudget(std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Charges `bytes`, or changes nothing and returns false where that would pass the limit.
  [[nodiscard]] bool TryCharge(std::uint64_t bytes);

  // Gives back what was charged before.
  void Uncharge(std::uint64_t bytes);

  // Forgets a peak that a reservation left which was taken back before it touched anything. `bytes`
  // is peak_bytes() from before.
  void RestorePeak(std::uint64_t bytes);

  std::uint64_t limit_bytes() const { return limit_bytes_; }
  std::uint64_t used_bytes() const { return used_bytes_; }
  std::uint64_t left_bytes() const { return limit_bytes_ - used_bytes_; }
  std::uint64_t peak_bytes() const { return peak_bytes_; }

 private:
  const std::uint64_t limit_bytes_;
  std::uint64_t used_bytes_ = 0;  // <= limit_bytes_
  std::uint64_t peak_bytes_ = 0;  // >= used_bytes_
};

}  // namespace swiftkv
