// SPDX-License-Identifier: Apache-2.0
// Reserves contiguous memory for a whole request at its start, by three rules, as servers without
// paging do.
#pragma once

#include "tools/bench_waste_allocator.h"

namespace swiftkv {

// Each request reserves kMostRequestTokens, the next power of two of its length, or its length.
// Errors: those of KvCache::Create for a cache of the same layers and format; ResourceExhausted.
Result<std::unique_ptr<RequestAllocator>> MakeMaxReservations(const AllocatorSpec& spec);
Result<std::unique_ptr<RequestAllocator>> MakePow2Reservations(const AllocatorSpec& spec);
Result<std::unique_ptr<RequestAllocator>> MakeExactReservations(const AllocatorSpec& spec);

}  // namespace swiftkv
