// SPDX-License-Identifier: Apache-2.0
// Puts tools into plain messages, for models whose template knows nothing of tools. Layer: model.
//
// The layout is the one that most open models were trained on, named after Hermes 2 Pro: tools as
// JSON in the system message, calls between <tool_call> tags, results between <tool_response>
// tags. A model that never saw it may still follow it; a grammar can force it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/chat_message.h"

namespace swiftkv {

// Returns the messages with `tools` told of in a leading system message, and with calls and results
// written out as text. Messages without tools, calls and results come back as they are.
std::vector<ChatMessage> WithToolsAsText(std::vector<ChatMessage> messages,
                                         std::span<const ChatTool> tools);

// A template that writes calls in that layout: what the format of replies is learnt from.
const std::string& ToolFallbackTemplate();

}  // namespace swiftkv
