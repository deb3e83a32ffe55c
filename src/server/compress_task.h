// SPDX-License-Identifier: Apache-2.0
// Reads requests that compress the beginning of prompts for others: POST /v1/kv/compress.
#pragma once

#include <optional>

#include "server/api_error.h"
#include "server/generation_task.h"
#include "server/served_model.h"

namespace swiftkv {

// Takes one prompt or the messages of a chat, as completions do, the fields of the cache, and `ttl`
// in seconds. Returns what is wrong, or nothing where `task` is complete.
std::optional<ApiError> ReadCompressTask(const ServedModel& model, const Json& body,
                                         GenerationTask* task);

}  // namespace swiftkv
