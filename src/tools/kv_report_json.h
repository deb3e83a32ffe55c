// SPDX-License-Identifier: Apache-2.0
// Gives a cache's report the keys of docs/json.md, for every command that shows one.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "tools/kv_report.h"

namespace swiftkv {

// Returns the object under `kv`.
nlohmann::ordered_json KvReportJson(const KvReport& report);

// Returns the object under `memory`.
nlohmann::ordered_json MemoryReportJson(const KvReport& report);

// Returns a prompt position, or null for a negative one.
nlohmann::ordered_json PrefixDiffersAtJson(std::int64_t position);

}  // namespace swiftkv
