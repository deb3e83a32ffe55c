// SPDX-License-Identifier: Apache-2.0
// Puts the real cache behind the interface of allocators.
#pragma once

#include "tools/bench_waste_allocator.h"

namespace swiftkv {

// Errors: those of KvCache::Create.
Result<std::unique_ptr<RequestAllocator>> MakePagedAllocator(const AllocatorSpec& spec);

}  // namespace swiftkv
