// SPDX-License-Identifier: Apache-2.0
// Reads the body of /v1/completions: prompts as text or token ids, and how they go on.
#pragma once

#include <optional>

#include "server/api_error.h"
#include "server/generation_task.h"
#include "server/served_model.h"

namespace swiftkv {

// Returns what is wrong, or nothing where `task` is complete. Control tokens may be written out in
// a prompt of text; chats are what keeps them apart.
std::optional<ApiError> ReadCompletionTask(const ServedModel& model, const Json& body,
                                           GenerationTask* task);

}  // namespace swiftkv
