// SPDX-License-Identifier: Apache-2.0
// Holds reservations of any size in one range of real memory, first fit.
//
// The pool reaches from the range's start to the end of the last reservation and all of it is
// resident. A reservation takes the first hole that holds it, or else lengthens the pool. Holes
// stay resident; what lies behind the last reservation is given back by Trim.
#pragma once

#include <cstdint>
#include <map>

#include "cache/mapped_range.h"
#include "swiftkv/status.h"

namespace swiftkv {

class ReservationPool {
 public:
  // A pool that may grow to `most_bytes`. Errors: ResourceExhausted where the system refuses the
  // addresses.
  static Result<ReservationPool> Create(std::uint64_t most_bytes);

  // Returns the offset of a reservation, its memory touched. Errors: ResourceExhausted.
  Result<std::uint64_t> Take(std::uint64_t bytes);
  void GiveBack(std::uint64_t offset);
  void Trim();

  std::uint64_t reserved_bytes() const { return reserved_bytes_; }
  // Bytes of the pool between reservations.
  std::uint64_t hole_bytes() const { return end() - reserved_bytes_; }

  const MappedRange& range() const { return range_; }

 private:
  std::uint64_t end() const;
  void MakeResident(std::uint64_t end);

  MappedRange range_;
  std::map<std::uint64_t, std::uint64_t> reservations_;  // offset -> bytes
  std::uint64_t reserved_bytes_ = 0;
  std::uint64_t resident_end_ = 0;  // whole OS pages
};

}  // namespace swiftkv
