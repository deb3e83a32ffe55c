// SPDX-License-Identifier: Apache-2.0
// Reads messages, the format that a reply must have, and the fields around them.
#include "server/chat_task.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "model/json_grammar.h"
#include "server/sampling_fields.h"

namespace swiftkv {
namespace {

constexpr std::size_t kMostMessages = 4096;
constexpr int kMostTopLogprobs = 20;
constexpr int kMostTokens = 1 << 30;

void RefuseTools(FieldReader* fields) {
  const Json* tools = fields->Find("tools");
  if (tools != nullptr && !tools->empty()) {
    fields->Fail("tools", "are not served here; leave them out, not: " + Shown(*tools));
  }
  const Json* choice = fields->Find("tool_choice");
  if (choice != nullptr && *choice != "none" && *choice != "auto") {
    fields->Fail("tool_choice", "may be none, tools are not served here, not: " + Shown(*choice));
  }
  const Json* modalities = fields->Find("modalities");
  if (modalities != nullptr && *modalities != Json::array({"text"})) {
    fields->Fail("modalities", "may be [\"text\"] only, not: " + Shown(*modalities));
  }
}

// The text of a content that is a list of parts.
void ReadParts(const Json& parts, FieldReader* fields, std::string* text) {
  for (const Json& part : parts) {
    const bool is_text = part.is_object() && part.value("type", Json()) == "text" &&
                         part.value("text", Json()).is_string();
    if (!is_text) {
      return fields->Fail("messages",
                          "may have parts {\"type\": \"text\", \"text\": ...} only; "
                          "images, audio and files are not served, not: " +
                              Shown(part.is_object() ? part.value("type", Json()) : part));
    }
    *text += part["text"].get_ref<const std::string&>();
  }
}

void ReadMessage(const Json& value, FieldReader* fields, ChatMessage* message) {
  if (!value.is_object()) {
    return fields->Fail("messages", "must hold objects, not: " + Shown(value));
  }
  const Json role = value.value("role", Json());
  if (!role.is_string()) {
    return fields->Fail("messages", "must have a string as role, not: " + Shown(role));
  }
  message->role = role.get<std::string>();
  for (const char* name : {"tool_calls", "function_call"}) {
    const Json calls = value.value(name, Json());
    if (!calls.is_null() && !calls.empty()) {
      return fields->Fail(
          "messages",
          fmt::format("may not have {}: tools are not served here, not: {}", name, Shown(calls)));
    }
  }
  const Json content = value.value("content", Json());
  if (content.is_string()) {
    message->content = content.get<std::string>();
  } else if (content.is_array()) {
    ReadParts(content, fields, &message->content);
  } else if (!content.is_null() || message->role != "assistant") {
    fields->Fail("messages",
                 "must have a string or a list of parts as content, not: " + Shown(content));
  }
}

std::vector<ChatMessage> ReadMessages(FieldReader* fields) {
  const Json* field = fields->Find("messages");
  if (fields->ok() &&
      (field == nullptr || !field->is_array() || field->empty() || field->size() > kMostMessages)) {
    fields->Fail("messages", fmt::format("must be a list of 1 to {} messages, not: {}",
                                         kMostMessages, field == nullptr ? "null" : Shown(*field)));
  }
  if (!fields->ok()) return {};
  std::vector<ChatMessage> messages(field->size());
  for (std::size_t i = 0; i < messages.size() && fields->ok(); ++i) {
    ReadMessage((*field)[i], fields, &messages[i]);
  }
  return messages;
}

// The schema that the reply must follow as JSON text; empty where it is free.
std::string SchemaOf(const Json& format, FieldReader* fields) {
  const Json type = format.is_object() ? format.value("type", Json()) : Json();
  if (type == "text") return {};
  if (type == "json_object") return R"({"type":"object"})";
  if (type == "json_schema") {
    const Json named = format.value("json_schema", Json());
    const Json schema = named.is_object() ? named.value("schema", Json()) : Json();
    if (schema.is_object()) return WriteJson(schema);
    fields->Fail("response_format",
                 "must have json_schema.schema, an object, not: " + Shown(schema));
    return {};
  }
  fields->Fail("response_format",
               "must have type text, json_object or json_schema, not: " + Shown(type));
  return {};
}

void ReadResponseFormat(FieldReader* fields, SamplerOptions* sampling) {
  const Json* format = fields->Find("response_format");
  if (format == nullptr) return;
  const std::string schema = SchemaOf(*format, fields);
  if (!fields->ok() || schema.empty()) return;
  Result<std::string> grammar = GrammarFromJsonSchema(schema);
  if (!grammar.ok()) {
    return fields->Fail("response_format", "is refused: " + grammar.status().message());
  }
  sampling->grammar = std::move(grammar).value();
}

void ReadLogprobs(FieldReader* fields, ReplyOptions* reply) {
  bool wanted = false;
  fields->Boolean("logprobs", &wanted);
  int count = 0;
  fields->Integer("top_logprobs", 0, kMostTopLogprobs, &count);
  if (fields->Find("top_logprobs") != nullptr && !wanted) {
    fields->Fail("top_logprobs", fmt::format("needs logprobs: true beside it, not: {}", count));
  }
  reply->top_logprobs = wanted ? count : -1;
}

bool WantsThinking(FieldReader* fields) {
  bool thinking = true;
  const Json* arguments = fields->Find("chat_template_kwargs");
  if (arguments == nullptr) return thinking;
  if (!arguments->is_object()) {
    fields->Fail("chat_template_kwargs", "must be an object, not: " + Shown(*arguments));
    return thinking;
  }
  FieldReader inner(arguments);
  inner.Boolean("enable_thinking", &thinking);
  if (!inner.ok()) fields->Fail("chat_template_kwargs", inner.error().message);
  return thinking;
}

}  // namespace

std::optional<ApiError> ReadChatTask(const ServedModel& model, const Json& body,
                                     GenerationTask* task) {
  FieldReader fields(&body);
  CheckModel(model, &fields);
  RefuseUnserved(&fields);
  RefuseTools(&fields);
  if (fields.ok() && model.chat_template == nullptr) {
    fields.Fail(ApiError{.message = "the model has no chat template; use /v1/completions",
                         .param = "messages"});
  }
  EngineRequest request;
  ReadSampling(model, &fields, &request);
  ReadReplyOptions(model, &fields, &task->reply);
  ReadCacheFields(&fields, &request);
  fields.Integer("max_tokens", 1, kMostTokens, &request.max_tokens);
  fields.Integer("max_completion_tokens", 1, kMostTokens, &request.max_tokens);
  ReadLogprobs(&fields, &task->reply);
  request.logprobs = task->reply.top_logprobs;
  const RenderOptions render = {.enable_thinking = WantsThinking(&fields)};
  const std::vector<ChatMessage> messages = ReadMessages(&fields);
  std::size_t bytes = 0;
  for (const ChatMessage& message : messages) bytes += message.content.size();
  CheckTextBytes(model, "messages", bytes, &fields);
  ReadResponseFormat(&fields, &request.sampling);
  if (!fields.ok()) return fields.error();
  Result<std::vector<TokenId>> tokens = model.chat_template->Tokens(messages, render);
  if (!tokens.ok()) return ErrorOf(tokens.status(), "messages");
  request.prompt = std::move(tokens).value();
  task->reply.kind = ReplyKind::kChat;
  task->requests.push_back(std::move(request));
  task->echoes.emplace_back();
  return std::nullopt;
}

}  // namespace swiftkv
