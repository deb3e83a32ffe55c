// SPDX-License-Identifier: Apache-2.0
// Reads what a process's control groups have of memory, and which of them leaves the least (Linux,
// versions 1 and 2, side by side too).
//
// Files are found through the process's mounts, so that a container that sees a part of the tree,
// or finds it somewhere else, is read rightly. A group counts with all groups above it that can be
// seen. Documentation: the kernel's admin-guide/cgroup-v2 and admin-guide/cgroup-v1/memory.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace swiftkv {

struct CgroupMemory {
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

  int version = 2;
  std::string path = "/";  // of the group, as far as it can be seen: "/" may be a container's own
  // What the group may take before the kernel ends processes, or, with memory.high, before it slows
  // them down: the lesser of the two. kUnlimited where neither is set.
  std::uint64_t limit_bytes = kUnlimited;
  std::uint64_t max_bytes = kUnlimited;
  std::uint64_t high_bytes = kUnlimited;  // version 2 only
  std::uint64_t current_bytes = 0;        // charged to the group, page cache included
  // Without the pages of files that the kernel drops first: what only swap or an end gives back.
  std::uint64_t used_bytes = 0;
  std::optional<std::uint64_t> swap_bytes;
  std::uint64_t swap_max_bytes = kUnlimited;

  bool is_limited() const { return limit_bytes != kUnlimited; }
  std::uint64_t bytes_left() const;
};

struct CgroupView {
  std::optional<CgroupMemory> own;  // the process's own group; none where no group accounts memory
  std::optional<CgroupMemory> tightest;  // of it and those above, what leaves the least; none where
                                         // nothing is limited
};

// `root` holds proc/ and sys/; tests pass their own. `process` is a folder of proc/. Never fails:
// what cannot be read limits nothing.
CgroupView ReadCgroups(const std::string& root = "", const std::string& process = "self");

// Returns ReadCgroups(root).tightest.
std::optional<CgroupMemory> ReadCgroupMemory(const std::string& root = "");

}  // namespace swiftkv
