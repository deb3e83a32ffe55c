// SPDX-License-Identifier: Apache-2.0
// Reads the tools of a chat, which of them may be called, and the calls in its history.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/chat_message.h"
#include "model/vocabulary.h"
#include "server/field_reader.h"

namespace swiftkv {

inline constexpr std::size_t kMaxTools = 128;
inline constexpr std::size_t kMaxToolSchemaBytes = 1U << 19;  // of all tools together

struct ToolFields {
  std::vector<ChatTool> told;      // to the model
  std::vector<ChatTool> callable;  // of those; one where the request names one
  ToolChoice choice = ToolChoice::kNone;
  bool parallel_calls = true;
};

// Errors are the reader's.
ToolFields ReadTools(FieldReader* fields);

// Returns an error for the first tool whose parameters cannot become a grammar by themselves. Takes
// as long as making the grammars: for requests that were refused.
std::optional<ApiError> FindWrongSchema(const Vocabulary& vocabulary,
                                        const std::vector<ChatTool>& tools);

// Reads the calls of an assistant's message. `place`: of the message, for errors.
std::vector<ChatToolCall> ReadToolCalls(const Json& message, const std::string& place,
                                        FieldReader* fields);

}  // namespace swiftkv
