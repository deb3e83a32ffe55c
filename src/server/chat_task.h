// SPDX-License-Identifier: Apache-2.0
// Reads the body of /v1/chat/completions and renders its messages by the model's template.
#pragma once

#include <optional>

#include "server/api_error.h"
#include "server/generation_task.h"
#include "server/served_model.h"

namespace swiftkv {

// Where `task` is already said to be of a compressed prefix, the chat ends with its last message.
// Returns what is wrong, or nothing where `task` is complete. What messages say never forms control
// tokens.
std::optional<ApiError> ReadChatTask(const ServedModel& model, const Json& body,
                                     GenerationTask* task);

}  // namespace swiftkv
