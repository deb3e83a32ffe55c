// SPDX-License-Identifier: Apache-2.0
// Describes what is said in a chat, and the tools that a reply may call, as plain data. Layer:
// model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace swiftkv {

// A call of a tool: said by an assistant, or read from a reply.
struct ChatToolCall {
  std::string id;  // empty: none is known
  std::string name;
  std::string arguments;  // JSON text of an object; of a reply that was cut short, its beginning

  friend bool operator==(const ChatToolCall&, const ChatToolCall&) = default;
};

struct ChatMessage {
  std::string role;  // system, developer, user, assistant or tool
  std::string content;
  std::string reasoning = {};                 // of an assistant, before the content
  std::vector<ChatToolCall> tool_calls = {};  // of an assistant, behind the content
  std::string tool_call_id = {};              // of a tool: the call that this answers
  std::string name = {};                      // of a tool: the one that answers

  friend bool operator==(const ChatMessage&, const ChatMessage&) = default;
};

// A function that the model may ask to have called.
struct ChatTool {
  std::string name;
  std::string description;
  std::string parameters = "{}";  // JSON schema of the arguments, as text; {}: there are none

  friend bool operator==(const ChatTool&, const ChatTool&) = default;
};

enum class ToolChoice : std::uint8_t {
  kNone,      // tools may be told of, none is called
  kAuto,      // the model decides
  kRequired,  // at least one call
};

}  // namespace swiftkv
