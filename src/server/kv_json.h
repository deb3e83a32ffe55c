// SPDX-License-Identifier: Apache-2.0
// Shapes what an operator is told of the cache at /kv.
#pragma once

#include <string>

#include "engine/engine_statistics.h"
#include "server/api_error.h"

namespace swiftkv {

// `kv_format`: of requests that name none. docs/server.md lists the keys.
Json KvJson(const EngineReport& report, const std::string& kv_format);

}  // namespace swiftkv
