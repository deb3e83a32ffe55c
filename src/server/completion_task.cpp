// SPDX-License-Identifier: Apache-2.0
// Reads prompts in their four shapes and the fields around them.
#include "server/completion_task.h"

#include <fmt/format.h>

#include <utility>

#include "server/sampling_fields.h"

namespace swiftkv {
namespace {

// As the API has it where a request does not say.
constexpr int kDefaultMaxTokens = 16;
constexpr int kMostLogprobs = 20;
constexpr int kMostTokens = 1 << 30;

struct Prompt {
  std::vector<std::int32_t> tokens;
  std::string text;
};

bool IsTokenList(const Json& value) {
  return value.is_array() && !value.empty() && value.front().is_number();
}

void ReadPrompt(const ServedModel& model, const Json& value, FieldReader* fields, Prompt* prompt) {
  if (value.is_string()) {
    prompt->text = value.get<std::string>();
    CheckTextBytes(model, "prompt", prompt->text.size(), fields);
    if (!fields->ok()) return;
    Result<std::vector<TokenId>> tokens = model.vocabulary->EncodePrompt(prompt->text);
    if (!tokens.ok()) return fields->Fail("prompt", "is refused: " + tokens.status().message());
    prompt->tokens = std::move(tokens).value();
    return;
  }
  if (!IsTokenList(value)) {
    return fields->Fail("prompt",
                        "must be a string, a list of strings, a list of token ids or a list of "
                        "those, none empty, not: " +
                            Shown(value));
  }
  std::string problem;
  prompt->tokens = ReadTokens(value, model.vocabulary->size(), &problem);
  if (!problem.empty()) return fields->Fail("prompt", problem);
  for (const TokenId token : prompt->tokens) prompt->text += model.vocabulary->TokenToPiece(token);
}

std::vector<Prompt> ReadPrompts(const ServedModel& model, FieldReader* fields) {
  const Json* field = fields->Find("prompt");
  if (field == nullptr) {
    fields->Fail("prompt", "is needed: a string, a list of strings or token ids, not: null");
    return {};
  }
  const bool many = field->is_array() && !IsTokenList(*field);
  const Json list = many ? *field : Json::array({*field});
  if (list.empty() || list.size() > kMaxChoices) {
    fields->Fail("prompt",
                 fmt::format("must hold 1 to {} prompts, not: {}", kMaxChoices, list.size()));
    return {};
  }
  std::vector<Prompt> prompts(list.size());
  for (std::size_t i = 0; i < list.size() && fields->ok(); ++i) {
    ReadPrompt(model, list[i], fields, &prompts[i]);
  }
  return prompts;
}

}  // namespace

std::optional<ApiError> ReadCompletionTask(const ServedModel& model, const Json& body,
                                           GenerationTask* task) {
  FieldReader fields(&body);
  CheckModel(model, &fields);
  RefuseUnserved(&fields);
  EngineRequest request;
  ReadSampling(model, &fields, &request);
  ReadReplyOptions(model, &fields, &task->reply);
  ReadCacheFields(&fields, &request);
  bool echo = false;
  fields.Boolean("echo", &echo);
  request.max_tokens = kDefaultMaxTokens;
  // An echo alone is a reply.
  fields.Integer("max_tokens", echo ? 0 : 1, kMostTokens, &request.max_tokens);
  fields.Integer("logprobs", 0, kMostLogprobs, &task->reply.top_logprobs);
  request.logprobs = task->reply.top_logprobs;
  if (echo) request.prompt_logprobs = request.logprobs;
  std::vector<Prompt> prompts = ReadPrompts(model, &fields);
  if (fields.ok() && prompts.size() * static_cast<std::size_t>(request.choices) > kMaxChoices) {
    fields.Fail("n", fmt::format("times prompts may be {} choices, not: {}", kMaxChoices,
                                 prompts.size() * static_cast<std::size_t>(request.choices)));
  }
  if (!fields.ok()) return fields.error();
  for (Prompt& prompt : prompts) {
    request.prompt = std::move(prompt.tokens);
    task->requests.push_back(request);
    task->echoes.push_back(echo ? std::move(prompt.text) : std::string());
  }
  return std::nullopt;
}

}  // namespace swiftkv
