// SPDX-License-Identifier: Apache-2.0
// Counts the cores that this process may keep busy.
#pragma once

#include <string>

namespace swiftkv {

// Returns the CPUs of the process's affinity mask, or fewer where control groups grant fewer
// (cpu.max, cpu.cfs_quota_us; rounded up); at least 1. `root` holds proc/ and sys/; tests pass
// their own.
int AvailableCores(const std::string& root = "/");

}  // namespace swiftkv
