// SPDX-License-Identifier: Apache-2.0
// Asks the kernel what memory a process and the machine use, and how much this process may still
// take (Linux procfs; control groups in base/cgroup_memory.h, single mappings in
// base/process_mappings.h).
//
// Documentation: man 5 proc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/cgroup_memory.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Returns the resident bytes (smaps Rss) of the mappings that lie within [begin, begin + bytes). A
// mapping that reaches over an end is counted whole, so keep guard pages around what is measured.
// Errors: those of ReadMappings.
Result<std::uint64_t> ResidentBytes(const void* begin, std::size_t bytes);

// Returns how much of [begin, begin + bytes) lies in memory, in whole OS pages, but never more than
// `bytes`. Quicker than smaps, and of a part of a mapping.
std::uint64_t TouchedBytes(const void* begin, std::size_t bytes);

// Returns the resident bytes of the whole process (VmRSS) and their peak (VmHWM).
Result<std::uint64_t> ProcessResidentBytes();
Result<std::uint64_t> ProcessPeakResidentBytes();

// A process as a whole, from its `status`.
struct ProcessMemory {
  std::string name;                  // of the program, as the kernel has it
  std::uint64_t resident_bytes = 0;  // VmRSS
  std::uint64_t peak_bytes = 0;      // VmHWM
  std::uint64_t swap_bytes = 0;      // VmSwap
};

// `folder` is "/proc/self" or another process's. Errors: NotFound where it has gone,
// InvalidArgument where it may not be read, Unsupported where it has no memory of its own.
Result<ProcessMemory> ReadProcessMemory(const std::string& folder);

// The heap of this process, as the C library's allocator keeps it.
struct HeapMemory {
  std::uint64_t used_bytes = 0;  // given out, with what the allocator adds to each piece
  std::uint64_t kept_bytes = 0;  // returned to the allocator and not, or not yet, to the system
};
HeapMemory ReadHeapMemory();

// The machine, as /proc/meminfo and the settings of transparent huge pages tell. Zero and empty
// where they do not.
struct MachineMemory {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;  // MemAvailable
  std::uint64_t swap_total_bytes = 0;
  std::uint64_t swap_free_bytes = 0;
  std::string huge_pages;  // "always", "madvise" or "never"
};

// `root` holds proc/ and sys/; tests pass their own.
MachineMemory ReadMachineMemory(const std::string& root = "");

// Returns what the kernel believes can be allocated without swapping (MemAvailable).
Result<std::uint64_t> MachineAvailableBytes();

// Returns what this process may still take: MachineAvailableBytes, or what the control group
// leaves where that is less.
Result<std::uint64_t> AvailableBytes();

}  // namespace swiftkv
