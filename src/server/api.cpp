// SPDX-License-Identifier: Apache-2.0
// Lists the routes; a new one is one function and one row.
#include "server/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <future>
#include <utility>

#include "server/chat_task.h"
#include "server/completion_task.h"
#include "server/compress_task.h"
#include "server/field_reader.h"
#include "server/json_body.h"
#include "server/kv_json.h"
#include "server/metrics.h"
#include "server/sampling_fields.h"

namespace swiftkv {
namespace {

enum class Caller : std::uint8_t { kAnybody, kTenant, kOperator };

HttpReply Ok(const Json& body) {
  HttpReply reply;
  reply.body = WriteJson(body);
  return reply;
}

ApiOutcome Failure(const ApiError& error) { return {ErrorReply(error), nullptr}; }

// Takes as long for every key of one length, so that time tells nothing of it.
bool SameSecret(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

bool IsAmong(const std::string& key, const std::vector<std::string>& keys) {
  bool found = false;
  for (const std::string& one : keys) found = SameSecret(key, one) || found;
  return found;
}

std::string BearerOf(const std::string& authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  return authorization.starts_with(kScheme) ? authorization.substr(kScheme.size()) : "";
}

// The bytes that a part of a path stands for (RFC 3986, section 2.1); what is no escape stays.
std::string DecodePercents(std::string_view part) {
  std::string decoded;
  for (std::size_t i = 0; i < part.size(); ++i) {
    unsigned char byte = 0;
    const char* const digits = part.data() + i + 1;
    const bool escapes = part[i] == '%' && i + 2 < part.size() &&
                         std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    decoded += escapes ? static_cast<char>(byte) : part[i];
    if (escapes) i += 2;
  }
  return decoded;
}

Json ModelJson(const ServedModel& model) {
  return {{"id", model.name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "swiftkv"},
          {"max_model_len", model.context}};
}

std::size_t LongestPiece(const Vocabulary& vocabulary) {
  std::size_t longest = 0;
  for (TokenId token = 0; token < vocabulary.size(); ++token) {
    longest = std::max(longest, vocabulary.TokenToPiece(token, /*show_control=*/true).size());
  }
  return longest;
}

}  // namespace

Api::Api(ServedModel model, ApiAccess access)
    : model_(std::move(model)), access_(std::move(access)) {
  model_.prompt_bytes = static_cast<std::size_t>(model_.context) * LongestPiece(*model_.vocabulary);
}

struct Api::Route {
  const char* path;
  const char* method;
  Caller caller;
  HttpReply (Api::*reply)() const;               // where a body says nothing
  HttpReply (Api::*compute)(const Json&) const;  // where it does
  std::optional<ApiError> (*read)(const ServedModel&, const Json&, GenerationTask*);
  // Where the path ends with '/': given what follows it.
  HttpReply (Api::*describe)(const std::string& rest) const = nullptr;

  bool Serves(const std::string& asked) const {
    if (describe == nullptr) return asked == path;
    return asked.starts_with(path) && asked.size() > std::strlen(path);
  }
};

const Api::Route* Api::FindRoute(const std::string& path) {
  static constexpr std::array<Route, 12> kRoutes = {{
      {"/health", "GET", Caller::kAnybody, &Api::Health, nullptr, nullptr},
      {"/version", "GET", Caller::kAnybody, &Api::Version, nullptr, nullptr},
      {"/v1/models", "GET", Caller::kTenant, &Api::Models, nullptr, nullptr},
      {"/v1/models/", "GET", Caller::kTenant, nullptr, nullptr, nullptr, &Api::DescribeModel},
      {"/kv", "GET", Caller::kOperator, &Api::Kv, nullptr, nullptr},
      {"/metrics", "GET", Caller::kOperator, &Api::Metrics, nullptr, nullptr},
      {"/reset_prefix_cache", "POST", Caller::kOperator, &Api::ResetPrefixes, nullptr, nullptr},
      {"/tokenize", "POST", Caller::kTenant, nullptr, &Api::Tokenize, nullptr},
      {"/detokenize", "POST", Caller::kTenant, nullptr, &Api::Detokenize, nullptr},
      {"/v1/completions", "POST", Caller::kTenant, nullptr, nullptr, ReadCompletionTask},
      {"/v1/kv/compress", "POST", Caller::kTenant, nullptr, nullptr, ReadCompressTask},
      {"/v1/chat/completions", "POST", Caller::kTenant, nullptr, nullptr, ReadChatTask},
  }};
  const auto* found = std::find_if(kRoutes.begin(), kRoutes.end(),
                                   [&](const Route& route) { return route.Serves(path); });
  return found == kRoutes.end() ? nullptr : found;
}

std::optional<HttpReply> Api::Screen(const HttpRequest& head) const {
  const Route* route = FindRoute(head.path);
  if (route == nullptr) {
    return ErrorReply({.http_status = 404,
                       .message = "nothing is served at: " + Shown(Json(head.path)),
                       .code = "not_found"});
  }
  if (head.method != route->method) {
    HttpReply reply = ErrorReply({.http_status = 405,
                                  .message = fmt::format("{} takes {}, not: {}", route->path,
                                                         route->method, Shown(Json(head.method))),
                                  .code = "method_not_allowed"});
    reply.headers.emplace_back("Allow", route->method);
    return reply;
  }
  const std::optional<ApiError> error = Admit(*route, head);
  return error ? std::optional(ErrorReply(*error)) : std::nullopt;
}

ApiOutcome Api::Handle(const HttpRequest& request, const std::function<void()>& wake) {
  ApiOutcome outcome = Dispatch(request, wake);
  const bool refused = outcome.generation == nullptr && outcome.reply.status >= 400;
  // A probe that asks whether the server is up was not refused when it is told no.
  if (refused && request.path != "/health") counters_.RefusedRequest(outcome.reply.status);
  return outcome;
}

ApiOutcome Api::Dispatch(const HttpRequest& request, const std::function<void()>& wake) {
  if (std::optional<HttpReply> refusal = Screen(request)) return {std::move(*refusal), nullptr};
  return Call(*FindRoute(request.path), request, wake);
}

std::optional<ApiError> Api::Admit(const Route& route, const HttpRequest& request) const {
  if (route.caller == Caller::kAnybody) return std::nullopt;
  const std::string key = BearerOf(request.authorization);
  if (route.caller == Caller::kOperator) {
    const bool local = access_.admin_keys.empty() && request.from_loopback;
    if (local || IsAmong(key, access_.admin_keys)) return std::nullopt;
    return ApiError{
        .http_status = 401, .message = "an operator's key is needed", .code = "invalid_api_key"};
  }
  if (draining_) {
    return ApiError{.http_status = 503,
                    .message = "the server is stopping",
                    .type = "service_unavailable_error",
                    .code = "service_unavailable"};
  }
  if (access_.keys.empty() || IsAmong(key, access_.keys)) return std::nullopt;
  return ApiError{.http_status = 401,
                  .message = "a known key is needed: Authorization: Bearer KEY",
                  .code = "invalid_api_key"};
}

std::string Api::TenantOf(const HttpRequest& request) const {
  return access_.keys.empty() ? std::string() : BearerOf(request.authorization);
}

ApiOutcome Api::Call(const Route& route, const HttpRequest& request,
                     const std::function<void()>& wake) {
  if (route.reply != nullptr) return {(this->*route.reply)(), nullptr};
  if (route.describe != nullptr) {
    return {(this->*route.describe)(request.path.substr(std::strlen(route.path))), nullptr};
  }
  const Result<Json> body = ParseJsonBody(request.body);
  if (!body.ok()) return Failure(ErrorOf(body.status()));
  if (route.compute != nullptr) return {(this->*route.compute)(*body), nullptr};
  GenerationTask task;
  if (const std::optional<ApiError> wrong = route.read(model_, *body, &task)) {
    return Failure(*wrong);
  }
  for (EngineRequest& one : task.requests) one.tenant_salt = TenantOf(request);
  ApiError error;
  std::unique_ptr<Generation> generation = Generation::Start(model_, std::move(task), wake, &error);
  if (generation == nullptr) return Failure(error);
  return {HttpReply{}, std::move(generation)};
}

HttpReply Api::Health() const {
  HttpReply reply = Ok({{"status", draining_ ? "stopping" : "ok"}});
  if (draining_) reply.status = 503;
  return reply;
}

HttpReply Api::Version() const { return Ok({{"version", SWIFTKV_VERSION}}); }

HttpReply Api::Models() const {
  return Ok({{"object", "list"}, {"data", Json::array({ModelJson(model_)})}});
}

HttpReply Api::DescribeModel(const std::string& rest) const {
  const std::string name = DecodePercents(rest);
  return name == model_.name ? Ok(ModelJson(model_)) : ErrorReply(UnknownModel(model_, name));
}

HttpReply Api::Kv() const { return Ok(KvJson(model_.engine->Report(), model_.kv_format)); }

// Waits for the end of a step, so not to be called by whoever serves streams.
HttpReply Api::ResetPrefixes() const {
  const auto outcome = std::make_shared<std::promise<DroppedPrefixes>>();
  const Status asked = model_.engine->DropPrefixes(
      std::nullopt, [outcome](const DroppedPrefixes& dropped) { outcome->set_value(dropped); });
  if (!asked.ok()) return ErrorReply(ErrorOf(asked));
  const DroppedPrefixes dropped = outcome->get_future().get();
  return Ok({{"dropped_blocks", dropped.blocks}, {"freed_bytes", dropped.freed_bytes}});
}

HttpReply Api::Metrics() const {
  HttpReply reply;
  reply.content_type = kMetricsContentType;
  reply.body = MetricsText({.engine = model_.engine->Report(),
                            .server = counters_.Read(),
                            .kv_format = model_.kv_format},
                           model_.name);
  return reply;
}

HttpReply Api::Tokenize(const Json& body) const {
  FieldReader fields(&body);
  std::string text;
  bool special = true;
  const char* name = fields.Find("content") != nullptr ? "content" : "prompt";
  fields.String(name, &text);
  fields.Boolean("add_special_tokens", &special);
  if (fields.ok() && fields.Find(name) == nullptr) {
    fields.Fail("prompt", "is needed: the text, not: null");
  }
  CheckTextBytes(model_, name, text.size(), &fields);
  if (!fields.ok()) return ErrorReply(fields.error());
  if (text.empty())
    return Ok({{"count", 0}, {"max_model_len", model_.context}, {"tokens", Json::array()}});
  const Result<std::vector<TokenId>> tokens =
      special ? model_.vocabulary->EncodePrompt(text) : model_.vocabulary->EncodeText(text);
  if (!tokens.ok()) return ErrorReply(ErrorOf(tokens.status(), name));
  return Ok({{"count", tokens->size()}, {"max_model_len", model_.context}, {"tokens", *tokens}});
}

HttpReply Api::Detokenize(const Json& body) const {
  FieldReader fields(&body);
  std::vector<TokenId> tokens;
  fields.Tokens("tokens", std::size_t{1} << 24, model_.vocabulary->size(), &tokens);
  if (fields.ok() && fields.Find("tokens") == nullptr) {
    fields.Fail("tokens", "is needed: a list of token ids, not: null");
  }
  if (!fields.ok()) return ErrorReply(fields.error());
  std::string text;
  for (const TokenId token : tokens) {
    text += model_.vocabulary->TokenToPiece(token, /*show_control=*/true);
  }
  return Ok({{"prompt", text}, {"content", text}});
}

}  // namespace swiftkv
