// SPDX-License-Identifier: Apache-2.0
// Lists the mappings of a process with what the kernel counts of each (Linux, /proc/PID/smaps).
//
// Documentation: man 5 proc_pid_smaps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "swiftkv/status.h"

namespace swiftkv {

struct ProcessMapping {
  std::uint64_t begin = 0;  // addresses [begin, end)
  std::uint64_t end = 0;
  std::string permissions;  // "rw-p"
  std::string name;         // path, "[heap]", "[anon:...]" and the like; empty for plain memory
  std::uint64_t resident_bytes = 0;
  std::uint64_t proportional_bytes = 0;  // Pss: each page divided by the processes that map it
  std::uint64_t private_dirty_bytes = 0;
  std::uint64_t huge_page_bytes = 0;  // AnonHugePages
  std::uint64_t swap_bytes = 0;
  std::string flags;  // VmFlags: words of two letters

  bool HasFlag(std::string_view flag) const;
  bool is_file() const { return name.starts_with('/'); }
};

// Reads what smaps says. Lines that are none of it are skipped.
std::vector<ProcessMapping> ParseMappings(std::string_view text);

// `folder` is "/proc/self" or another process's. Errors: NotFound where it has gone,
// InvalidArgument where it may not be read.
Result<std::vector<ProcessMapping>> ReadMappings(const std::string& folder);

}  // namespace swiftkv
