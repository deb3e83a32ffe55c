// SPDX-License-Identifier: Apache-2.0
// Gathers what the kernel counts of a process's memory: its mappings by kind, the process as a
// whole, its control groups, and the machine.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/cgroup_memory.h"
#include "base/process_mappings.h"
#include "base/process_memory.h"
#include "swiftkv/status.h"

namespace swiftkv {

enum class MappingKind : std::uint8_t {
  kPages,     // frames of a cache
  kMetadata,  // a cache's arrays; what lies on the heap is there
  kWeights,   // model files
  kHeap,      // other memory of no file, stacks included
  kProgram,   // the program, its libraries and their data
};
inline constexpr std::size_t kNumMappingKinds = 5;

// Returns a kind's name in JSON: "kv_pages", "kv_metadata", "weights", "heap", "program".
const char* MappingKindName(MappingKind kind);

// Sums over the mappings of a kind, as smaps has them.
struct MappingFigures {
  int mappings = 0;
  std::uint64_t resident_bytes = 0;
  std::uint64_t proportional_bytes = 0;
  std::uint64_t private_dirty_bytes = 0;
  std::uint64_t huge_page_bytes = 0;
  std::uint64_t swap_bytes = 0;

  void Add(const ProcessMapping& mapping);
};

struct KernelView {
  int process_id = 0;
  ProcessMemory process;
  std::array<MappingFigures, kNumMappingKinds> kinds;
  CgroupView cgroups;
  MachineMemory machine;

  const MappingFigures& of(MappingKind kind) const { return kinds[static_cast<std::size_t>(kind)]; }
  // Sums over all kinds.
  MappingFigures total() const;
};

// Tells the kind of a mapping. A cache's ranges have names where the kernel keeps names; elsewhere
// they are those that reserve nothing and refuse huge pages of the kernel's own choice. Without a
// name, frames are told from arrays by `frame_bases`, addresses of arenas, or else by their
// alignment.
MappingKind KindOf(const ProcessMapping& mapping, std::span<const std::byte* const> frame_bases);

// Views this process.
Result<KernelView> ViewThisProcess(std::span<const std::byte* const> frame_bases);

// Views another one. Errors: NotFound where there is none, InvalidArgument where this user may not
// look, Unsupported where it has no memory of its own.
Result<KernelView> ViewProcess(int process_id);

}  // namespace swiftkv
