// SPDX-License-Identifier: Apache-2.0
// Holds the one hard bound of memory that everything in a cache is charged to.
//
// Owner: the cache's thread. Charges come before the first touch of what they stand for, so what
// the kernel counts never passes the bound. A part of the bound may be kept free as headroom, which
// only those who have entered it may charge.
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

  // Keeps `bytes`, at most the limit, free from now on.
  void KeepHeadroom(std::uint64_t bytes) { kept_bytes_ = bytes; }
  // Between these calls, the headroom may be charged as all else. Who enters leaves once what is
  // used no longer reaches into it.
  void EnterHeadroom() { is_inside_ = true; }
  void LeaveHeadroom() { is_inside_ = false; }
  std::uint64_t headroom_bytes() const { return kept_bytes_; }

  std::uint64_t limit_bytes() const { return limit_bytes_; }
  std::uint64_t used_bytes() const { return used_bytes_; }
  // What TryCharge may still charge.
  std::uint64_t left_bytes() const {
    const std::uint64_t open = limit_bytes_ - (is_inside_ ? 0 : kept_bytes_);
    return open > used_bytes_ ? open - used_bytes_ : 0;
  }
  std::uint64_t peak_bytes() const { return peak_bytes_; }

 private:
  const std::uint64_t limit_bytes_;
  std::uint64_t used_bytes_ = 0;  // <= limit_bytes_
  std::uint64_t peak_bytes_ = 0;  // >= used_bytes_
  std::uint64_t kept_bytes_ = 0;  // <= limit_bytes_
  bool is_inside_ = false;
};

}  // namespace swiftkv
