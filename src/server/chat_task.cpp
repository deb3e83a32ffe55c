// SPDX-License-Identifier: Apache-2.0
// Reads messages, the format that a reply must have, and the fields around them.
#include "server/chat_task.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <utility>

#include "model/json_grammar.h"
#include "server/sampling_fields.h"
#include "server/tool_fields.h"

namespace swiftkv {
namespace {

constexpr std::size_t kMostMessages = 4096;
constexpr int kMostTopLogprobs = 20;
constexpr int kMostTokens = 1 << 30;

void RefuseModalities(FieldReader* fields) {
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

// Reads what only some roles have: reasoning and calls, and what a tool answers.
void ReadRoleFields(const Json& value, const std::string& place, FieldReader* fields,
                    ChatMessage* message) {
  FieldReader own(&value);
  if (message->role == "assistant") {
    own.String("reasoning_content", &message->reasoning);
    message->tool_calls = ReadToolCalls(value, place, fields);
  } else if (message->role == "tool") {
    own.String("tool_call_id", &message->tool_call_id);
    own.String("name", &message->name);
  }
  const Json old_call = value.value("function_call", Json());
  if (!old_call.is_null()) {
    own.Fail("function_call", "is not served here; use tool_calls, not: " + Shown(old_call));
  }
  if (!own.ok()) fields->Fail("messages", "are refused: " + own.error().message);
}

void ReadMessage(const Json& value, const std::string& place, FieldReader* fields,
                 ChatMessage* message) {
  if (!value.is_object()) {
    return fields->Fail("messages", "must hold objects, not: " + Shown(value));
  }
  const Json role = value.value("role", Json());
  if (!role.is_string()) {
    return fields->Fail("messages", "must have a string as role, not: " + Shown(role));
  }
  message->role = role.get<std::string>();
  ReadRoleFields(value, place, fields, message);
  if (!fields->ok()) return;
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

// Gives results of tools the names of the calls that they answer: some templates show them.
void NameResults(std::vector<ChatMessage>* messages) {
  std::map<std::string, std::string> names;
  for (ChatMessage& message : *messages) {
    for (const ChatToolCall& call : message.tool_calls) names[call.id] = call.name;
    const auto found = names.find(message.tool_call_id);
    const bool is_nameless = message.role == "tool" && message.name.empty();
    if (is_nameless && found != names.end()) message.name = found->second;
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
    ReadMessage((*field)[i], fmt::format("messages[{}]", i), fields, &messages[i]);
  }
  NameResults(&messages);
  return messages;
}

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

// The schema that the reply must follow as JSON text; empty where it is free.
std::string ReadResponseFormat(FieldReader* fields) {
  const Json* format = fields->Find("response_format");
  return format == nullptr ? std::string() : SchemaOf(*format, fields);
}

// Makes the reply follow `schema`, where the format of replies does not see to it.
void FollowSchema(const std::string& schema, FieldReader* fields, SamplerOptions* sampling) {
  Result<std::string> grammar = GrammarFromJsonSchema(schema);
  if (!grammar.ok()) {
    return fields->Fail("response_format", "is refused: " + grammar.status().message());
  }
  sampling->grammar = std::move(grammar).value();
}

// Whether reasoning is told apart from content, as far as the template marks it.
bool SplitsReasoning(FieldReader* fields) {
  std::string format = "auto";
  fields->String("reasoning_format", &format);
  if (format != "auto" && format != "none" && format != "deepseek") {
    fields->Fail("reasoning_format",
                 "must be auto, deepseek (the same) or none, not: " + Shown(Json(format)));
  }
  return format != "none";
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

// What a chat asks for beside sampling and the cache.
struct ChatFields {
  std::vector<ChatMessage> messages;
  ToolFields tools;
  RenderOptions render;
  std::string schema;
  bool split_reasoning = true;
};

ChatFields ReadChatFields(FieldReader* fields) {
  ChatFields chat;
  chat.tools = ReadTools(fields);
  chat.render.enable_thinking = WantsThinking(fields);
  chat.render.tools = chat.tools.told;
  chat.split_reasoning = SplitsReasoning(fields);
  chat.messages = ReadMessages(fields);
  chat.schema = ReadResponseFormat(fields);
  return chat;
}

// Renders the prompt, and makes the reply keep to its format.
std::optional<ApiError> FillRequest(const ServedModel& model, const ChatFields& chat,
                                    EngineRequest* request, ReplyOptions* reply) {
  const ChatTemplate& chat_template = *model.chat_template;
  Result<std::vector<TokenId>> tokens = chat_template.Tokens(chat.messages, chat.render);
  if (!tokens.ok()) return ErrorOf(tokens.status(), "messages");
  request->prompt = std::move(tokens).value();
  const ReplyWishes wishes = {.tools = chat.tools.callable,
                              .choice = chat.tools.choice,
                              .parallel_calls = chat.tools.parallel_calls,
                              .split_reasoning = chat.split_reasoning,
                              .enable_thinking = chat.render.enable_thinking,
                              .json_schema = chat.schema};
  Result<std::shared_ptr<const ReplyFormat>> format = chat_template.Format(chat.messages, wishes);
  if (!format.ok()) {
    std::optional<ApiError> wrong = FindWrongSchema(*model.vocabulary, chat.tools.told);
    if (wrong) return wrong;
    const bool is_schemas = format.status().code() == StatusCode::kUnsupported;
    const char* const asked = chat.tools.told.empty() ? "messages" : "tools";
    return ErrorOf(format.status(), is_schemas ? "response_format" : asked);
  }
  reply->format = std::move(format).value();
  if (reply->format == nullptr) return std::nullopt;
  reply->format->Apply(&request->sampling);
  for (const std::string& stop : reply->format->stops()) reply->stops.push_back(stop);
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> ReadChatTask(const ServedModel& model, const Json& body,
                                     GenerationTask* task) {
  FieldReader fields(&body);
  CheckModel(model, &fields);
  RefuseUnserved(&fields);
  RefuseModalities(&fields);
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
  ChatFields chat = ReadChatFields(&fields);
  // A prefix goes on with another turn.
  chat.render.add_generation_prompt = task->reply.kind != ReplyKind::kCompressedPrefix;
  std::size_t bytes = 0;
  for (const ChatMessage& message : chat.messages) {
    bytes += message.content.size() + message.reasoning.size();
  }
  CheckTextBytes(model, "messages", bytes, &fields);
  // Checked first for any template, so that its error names the field.
  if (fields.ok() && !chat.schema.empty()) FollowSchema(chat.schema, &fields, &request.sampling);
  // A reply of calls has no content.
  if (chat.tools.choice == ToolChoice::kRequired) request.sampling.grammar.clear();
  if (!fields.ok()) return fields.error();
  if (std::optional<ApiError> wrong = FillRequest(model, chat, &request, &task->reply)) {
    return wrong;
  }
  if (task->reply.kind == ReplyKind::kCompletion) task->reply.kind = ReplyKind::kChat;
  task->requests.push_back(std::move(request));
  task->echoes.emplace_back();
  return std::nullopt;
}

}  // namespace swiftkv
