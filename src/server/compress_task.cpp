// SPDX-License-Identifier: Apache-2.0
// Reads the prompt as completions do, and adds what is asked for instead of a reply.
#include "server/compress_task.h"

#include <string>

#include "server/chat_task.h"
#include "server/completion_task.h"
#include "server/field_reader.h"

namespace swiftkv {
namespace {

constexpr std::int64_t kDefaultSeconds = 600;
constexpr std::int64_t kMostSeconds = 30LL * 24 * 3600;

// Fields of replies, of which there is none.
constexpr const char* kOfReplies[] = {"stream", "n",     "best_of",         "echo",
                                      "stop",   "tools", "response_format", "logprobs"};

}  // namespace

std::optional<ApiError> ReadCompressTask(const ServedModel& model, const Json& body,
                                         GenerationTask* task) {
  FieldReader fields(&body);
  for (const char* name : kOfReplies) {
    const Json* field = fields.Find(name);
    if (field != nullptr) {
      fields.Fail(name,
                  "belongs to a reply, and a prefix has none; leave it out, not: " + Shown(*field));
    }
  }
  std::int64_t seconds = kDefaultSeconds;
  fields.Integer("ttl", 1, kMostSeconds, &seconds);
  const bool is_chat = fields.Find("messages") != nullptr;
  if (is_chat && fields.Find("prompt") != nullptr) {
    fields.Fail("messages", "and prompt both give the prefix; give one, not: both");
  }
  if (!fields.ok()) return fields.error();
  task->reply.kind = ReplyKind::kCompressedPrefix;
  const std::optional<ApiError> wrong =
      is_chat ? ReadChatTask(model, body, task) : ReadCompletionTask(model, body, task);
  if (wrong) return wrong;
  if (task->requests.size() != 1) {
    return ApiError{
        .message = "prompt: must be one prompt, not: " + std::to_string(task->requests.size()),
        .param = "prompt"};
  }
  task->requests.front().keep_compressed_ms = seconds * 1000;
  return std::nullopt;
}

}  // namespace swiftkv
