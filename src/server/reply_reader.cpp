// SPDX-License-Identifier: Apache-2.0
// Reads the reply so far and tells how it has grown.
#include "server/reply_reader.h"

#include <fmt/format.h>

#include <random>
#include <utility>

namespace swiftkv {
namespace {

// Moves `told` on to `now` and returns what was added; nothing where `now` does not go on from it:
// what was told stays told.
std::string Growth(const std::string& now, std::string* told) {
  if (!now.starts_with(*told)) return {};
  std::string added = now.substr(told->size());
  *told = now;
  return added;
}

// The names of formats that have no ids of their own.
std::string MakeCallId() {
  std::random_device device;
  return fmt::format("call_{:08x}{:08x}{:08x}", device(), device(), device());
}

}  // namespace

ReplyNews ReplyReader::Read(bool is_whole) {
  ReplyNews news;
  if (text_.size() == read_bytes_ && !is_whole) return news;
  read_bytes_ = text_.size();
  const ParsedReply now = format_->Parse(text_, is_whole);
  news.reasoning = Growth(now.reasoning, &told_.reasoning);
  news.content = Growth(now.content, &told_.content);
  for (std::size_t i = 0; i < now.tool_calls.size(); ++i) {
    ReadCall(now.tool_calls[i], is_whole || i + 1 < now.tool_calls.size(), i, &news);
  }
  return news;
}

void ReplyReader::ReadCall(const ChatToolCall& call, bool is_complete, std::size_t index,
                           ReplyNews* news) {
  // A name may still grow until its arguments begin.
  const bool knows_name = !call.name.empty() && (is_complete || !call.arguments.empty());
  const bool is_new = index >= told_.tool_calls.size();
  if (is_new && (!knows_name || index > told_.tool_calls.size())) return;
  ToolCallNews told{.index = index, .id = {}, .name = {}, .arguments = {}};
  if (is_new) {
    told.id = call.id.empty() ? MakeCallId() : call.id;
    told.name = call.name;
    told_.tool_calls.push_back({.id = told.id, .name = told.name, .arguments = {}});
  }
  told.arguments = Growth(call.arguments, &told_.tool_calls[index].arguments);
  if (is_new || !told.arguments.empty()) news->calls.push_back(std::move(told));
}

}  // namespace swiftkv
