// SPDX-License-Identifier: Apache-2.0
// Tells reasoning, content and tool calls of a reply apart while it grows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/reply_format.h"

namespace swiftkv {

// What a call has to tell since it was last asked.
struct ToolCallNews {
  std::size_t index = 0;
  std::string id;         // with the name, once
  std::string name;       // whole; empty: it was told before
  std::string arguments;  // the next piece of the JSON text

  friend bool operator==(const ToolCallNews&, const ToolCallNews&) = default;
};

struct ReplyNews {
  std::string reasoning;
  std::string content;
  std::vector<ToolCallNews> calls;

  bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
};

// The pieces of all news, joined, are what one read of the whole reply tells.
class ReplyReader {
 public:
  explicit ReplyReader(std::shared_ptr<const ReplyFormat> format) : format_(std::move(format)) {}

  void Add(const std::string& text) { text_ += text; }
  // Returns what can be told by now. `is_whole`: the model ended the reply itself, nothing follows.
  ReplyNews Read(bool is_whole);

  bool has_calls() const { return !told_.tool_calls.empty(); }

 private:
  void ReadCall(const ChatToolCall& call, bool is_complete, std::size_t index, ReplyNews* news);

  std::shared_ptr<const ReplyFormat> format_;
  std::string text_;
  std::size_t read_bytes_ = 0;  // of it, at the last read
  ParsedReply told_;
};

}  // namespace swiftkv
