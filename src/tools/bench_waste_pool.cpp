// SPDX-License-Identifier: Apache-2.0
// Places reservations and touches their memory.
#include "tools/bench_waste_pool.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace swiftkv {

Result<ReservationPool> ReservationPool::Create(std::uint64_t most_bytes) {
  ReservationPool pool;
  SKV_ASSIGN_OR_RETURN(pool.range_,
                       MappedRange::Reserve(most_bytes, "swiftkv reservations", kHugePageBytes));
  return pool;
}

std::uint64_t ReservationPool::end() const {
  if (reservations_.empty()) return 0;
  const auto& [offset, bytes] = *reservations_.rbegin();
  return offset + bytes;
}

Result<std::uint64_t> ReservationPool::Take(std::uint64_t bytes) {
  std::uint64_t offset = 0;
  for (const auto& [begin, size] : reservations_) {
    if (begin - offset >= bytes) break;
    offset = begin + size;
  }
  if (offset > range_.bytes() || bytes > range_.bytes() - offset) {
    return Status::ResourceExhausted(
        fmt::format("the pool has no hole for a reservation of {} bytes and cannot grow beyond: {}",
                    bytes, range_.bytes()));
  }
  SKV_CHECK(bytes > 0 && reservations_.emplace(offset, bytes).second);
  reserved_bytes_ += bytes;
  MakeResident(end());
  return offset;
}

void ReservationPool::GiveBack(std::uint64_t offset) {
  const auto reservation = reservations_.find(offset);
  SKV_CHECK(reservation != reservations_.end());
  reserved_bytes_ -= reservation->second;
  reservations_.erase(reservation);
}

void ReservationPool::Trim() {
  const std::uint64_t wanted = OsPages(end()) * OsPageBytes();
  if (wanted >= resident_end_) return;
  range_.Discard(wanted, resident_end_ - wanted);
  resident_end_ = wanted;
}

void ReservationPool::MakeResident(std::uint64_t end) {
  const std::uint64_t wanted = OsPages(end) * OsPageBytes();
  if (wanted <= resident_end_) return;
  const std::uint64_t first = (resident_end_ + kHugePageBytes - 1) / kHugePageBytes;
  const std::uint64_t last = wanted / kHugePageBytes;
  if (SystemHasHugePages() && last > first) {  // quicker to touch; the same bytes
    (void)range_.UseHugePages(first * kHugePageBytes, (last - first) * kHugePageBytes);
  }
  for (std::uint64_t at = resident_end_; at < wanted; at += OsPageBytes()) {
    volatile std::byte* const touched = range_.data() + at;
    *touched = std::byte{1};
  }
  resident_end_ = wanted;
}

}  // namespace swiftkv
