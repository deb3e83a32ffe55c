// SPDX-License-Identifier: Apache-2.0
// Applies the three rules of reservation to one pool.
#include "tools/bench_waste_contiguous.h"

#include <bit>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/process_mappings.h"
#include "base/status_macros.h"
#include "tools/bench_waste_pool.h"

namespace swiftkv {
namespace {

// Returns the tokens that a request reserves.
using ReservationRule = int (*)(const RequestLengths& lengths);

class ContiguousAllocator final : public RequestAllocator {
 public:
  // `sizes` tells what a number of tokens takes in this format; nothing is stored in it.
  ContiguousAllocator(std::unique_ptr<KvCache> sizes, ReservationPool pool, ReservationRule rule,
                      int seats)
      : sizes_(std::move(sizes)),
        pool_(std::move(pool)),
        rule_(rule),
        seats_(static_cast<std::size_t>(seats)) {}

  Status Start(int seat, const RequestLengths& lengths) override {
    Reservation reservation;
    reservation.slots = rule_(lengths);
    SKV_ASSIGN_OR_RETURN(reservation.offset, pool_.Take(Bytes(reservation.slots)));
    resident_bytes_.reset();
    At(seat) = reservation;
    return Status::Ok();
  }

  Status Append(int seat, int tokens) override {
    At(seat).tokens += tokens;
    SKV_CHECK(At(seat).tokens <= At(seat).slots);
    return Status::Ok();
  }

  void End(int seat) override {
    pool_.GiveBack(At(seat).offset);
    resident_bytes_.reset();
    At(seat) = {};
  }

  std::int64_t AllocatedSlots(int seat) const override {
    return seats_[static_cast<std::size_t>(seat)].slots;
  }

  // A hole is worth as many slots as reservations of its size have on average.
  double ExternalSlots() const override {
    std::int64_t slots = 0;
    for (const Reservation& reservation : seats_) slots += reservation.slots;
    if (slots == 0) return 0;
    return static_cast<double>(pool_.hole_bytes()) * static_cast<double>(slots) /
           static_cast<double>(pool_.reserved_bytes());
  }

  std::uint64_t FilledBytes() const override {
    std::uint64_t bytes = 0;
    for (const Reservation& reservation : seats_) bytes += Bytes(reservation.tokens);
    return bytes;
  }

  // Asks the kernel once for each change of the pool: it walks all pages to answer.
  Result<std::uint64_t> ResidentBytes() override {
    if (!resident_bytes_) {
      pool_.Trim();
      SKV_ASSIGN_OR_RETURN(resident_bytes_, PoolBytes());
    }
    return *resident_bytes_;
  }

 private:
  struct Reservation {
    std::uint64_t offset = 0;
    int slots = 0;  // 0: the seat is free
    int tokens = 0;
  };

  Result<std::uint64_t> PoolBytes() const {
    const auto begin = reinterpret_cast<std::uintptr_t>(pool_.range().data());
    std::uint64_t bytes = 0;
    SKV_ASSIGN_OR_RETURN(const std::vector<ProcessMapping> mappings, ReadMappings("/proc/self"));
    for (const ProcessMapping& mapping : mappings) {
      const bool is_ours = mapping.begin >= begin && mapping.end <= begin + pool_.range().bytes();
      if (is_ours) bytes += mapping.private_dirty_bytes;
    }
    return bytes;
  }

  Reservation& At(int seat) { return seats_[static_cast<std::size_t>(seat)]; }
  std::uint64_t Bytes(int tokens) const { return sizes_->contiguous_bytes(tokens); }

  std::unique_ptr<KvCache> sizes_;
  ReservationPool pool_;
  const ReservationRule rule_;
  std::vector<Reservation> seats_;
  std::optional<std::uint64_t> resident_bytes_;
};

Result<std::unique_ptr<RequestAllocator>> MakeReservations(const AllocatorSpec& spec,
                                                           ReservationRule rule) {
  KvCacheOptions options;
  options.layers = spec.layers;
  options.key_format = spec.format.key;
  options.value_format = spec.format.value;
  options.memory_bytes = spec.memory_bytes;
  SKV_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> sizes, KvCache::Create(options));
  SKV_ASSIGN_OR_RETURN(ReservationPool pool, ReservationPool::Create(spec.memory_bytes));
  return std::unique_ptr<RequestAllocator>(
      new ContiguousAllocator(std::move(sizes), std::move(pool), rule, spec.seats));
}

}  // namespace

Result<std::unique_ptr<RequestAllocator>> MakeMaxReservations(const AllocatorSpec& spec) {
  return MakeReservations(spec, [](const RequestLengths&) { return kMostRequestTokens; });
}

Result<std::unique_ptr<RequestAllocator>> MakePow2Reservations(const AllocatorSpec& spec) {
  return MakeReservations(spec, [](const RequestLengths& lengths) {
    return static_cast<int>(std::bit_ceil(static_cast<unsigned>(lengths.total())));
  });
}

Result<std::unique_ptr<RequestAllocator>> MakeExactReservations(const AllocatorSpec& spec) {
  return MakeReservations(spec, [](const RequestLengths& lengths) { return lengths.total(); });
}

}  // namespace swiftkv
