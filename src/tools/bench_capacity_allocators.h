// SPDX-License-Identifier: Apache-2.0
// Lists the ways of giving KV memory to requests that `bench capacity` compares, and the memory
// that it gives them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/option_field.h"
#include "swiftkv/engine.h"
#include "swiftkv/kv_cache.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct CapacityAllocator {
  const char* name;  // as in `bench waste`
  SlotReservation reservation;
};

// Returns the allocators of a list of names; all of them for "all". Errors: InvalidArgument with
// the names.
Result<std::vector<CapacityAllocator>> ListCapacityAllocators(const NameList& names);

// Returns the bound, to a thousandth, of a cache of these layers in f16 in which `count` sequences
// have `slots` slots each, or as many blocks any number of sequences, with what describes them.
// Errors: those of KvCache::Create.
Result<std::uint64_t> BytesOfReservations(const std::vector<LayerShape>& layers, int count,
                                          int slots);

}  // namespace swiftkv
