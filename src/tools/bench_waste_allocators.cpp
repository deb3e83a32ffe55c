// SPDX-License-Identifier: Apache-2.0
// Lists the allocators that benches compare.
#include <algorithm>
#include <array>

#include "tools/bench_waste_allocator.h"
#include "tools/bench_waste_contiguous.h"
#include "tools/bench_waste_paged.h"
#include "tools/printable_text.h"

namespace swiftkv {

std::span<const NamedAllocator> AllAllocators() {
  static constexpr std::array<NamedAllocator, 4> kAllocators = {{
      {"paged", "blocks of 16 tokens as they come: SwiftKV's cache", MakePagedAllocator},
      {"contiguous_max", "the longest request that is served", MakeMaxReservations},
      {"contiguous_pow2", "the next power of two of its real length", MakePow2Reservations},
      {"contiguous_exact", "its real length, as an oracle knows it", MakeExactReservations},
  }};
  return kAllocators;
}

Result<std::vector<NamedAllocator>> ListAllocators(const NameList& names) {
  const std::span<const NamedAllocator> all = AllAllocators();
  std::vector<NamedAllocator> allocators;
  for (const std::string& name : names.names) {
    if (name == "all" && names.names.size() == 1) return std::vector(all.begin(), all.end());
    const auto row = std::find_if(all.begin(), all.end(),
                                  [&](const NamedAllocator& known) { return name == known.name; });
    if (row == all.end()) {
      std::string known;
      for (const NamedAllocator& allocator : all) known += std::string(allocator.name) + ", ";
      return Status::InvalidArgument("allocators are some of " + known +
                                     "all, not: " + PrintableExcerpt(name, 60));
    }
    allocators.push_back(*row);
  }
  return allocators;
}

}  // namespace swiftkv
