// SPDX-License-Identifier: Apache-2.0
// Asks the kernel what memory a process uses and how much it may still take (Linux procfs and
// control groups, versions 1 and 2).
//
// Documentation: man 5 proc; the kernel's admin-guide/cgroup-v1/memory and admin-guide/cgroup-v2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "swiftkv/status.h"

namespace swiftkv {

// Returns the resident bytes (smaps Rss) of the mappings that lie within [begin, begin + bytes). A
// mapping that reaches over an end is counted whole, so keep guard pages around what is measured.
// Errors: Internal where /proc/self/smaps cannot be read.
Result<std::uint64_t> ResidentBytes(const void* begin, std::size_t bytes);

// Returns the resident bytes of the whole process (VmRSS) and their peak (VmHWM).
Result<std::uint64_t> ProcessResidentBytes();
Result<std::uint64_t> ProcessPeakResidentBytes();

// Returns what the kernel believes can be allocated without swapping (MemAvailable).
Result<std::uint64_t> MachineAvailableBytes();

// The tightest memory limit of the process's control groups.
struct CgroupMemory {
  std::uint64_t limit_bytes = 0;
  std::uint64_t used_bytes = 0;  // without file pages that the kernel can drop
};

// Returns nothing where no group limits memory. `root` holds proc/ and sys/; tests pass their own.
std::optional<CgroupMemory> ReadCgroupMemory(const std::string& root = "/");

// Returns what this process may still take: MachineAvailableBytes, or what the control group
// leaves where that is less.
Result<std::uint64_t> AvailableBytes();

}  // namespace swiftkv
