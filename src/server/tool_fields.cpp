// SPDX-License-Identifier: Apache-2.0
// Checks tools field by field, and each schema by making its grammar.
#include "server/tool_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/grammar_syntax.h"
#include "model/json_grammar.h"
#include "server/json_body.h"

namespace swiftkv {
namespace {

constexpr std::size_t kMaxToolName = 64;
constexpr std::size_t kMaxToolCalls = 128;  // of one message

bool IsToolName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxToolName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-';
         });
}

// Rules of grammars have no underscore, so names that differ in it alone would be one rule.
std::string RuleName(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// The member, or null where `object` is none or has none.
const Json& Member(const Json& object, const char* name) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

class ToolReader {
 public:
  explicit ToolReader(FieldReader* fields) : fields_(fields) {}

  void Read(std::size_t index, const Json& value, ChatTool* tool) {
    const std::string place = fmt::format("tools[{}]", index);
    if (Member(value, "type") != "function") {
      return Fail(place + ".type", "must be function, not: ", Member(value, "type"));
    }
    const Json& function = Member(value, "function");
    const Json& name = Member(function, "name");
    if (!name.is_string() || !IsToolName(name.get<std::string>())) {
      return Fail(place + ".function.name",
                  "must be 1 to 64 letters, digits, _ and -, not: ", name);
    }
    tool->name = name.get<std::string>();
    const Json& description = Member(function, "description");
    if (!description.is_null() && !description.is_string()) {
      return Fail(place + ".function.description", "must be a string, not: ", description);
    }
    tool->description = description.is_null() ? "" : description.get<std::string>();
    ReadSchema(place + ".function.parameters", Member(function, "parameters"), tool);
  }

 private:
  void Fail(const std::string& place, const std::string& message, const Json& value) {
    fields_->Fail(place.c_str(), message + Shown(value));
  }

  void ReadSchema(const std::string& place, const Json& schema, ChatTool* tool) {
    if (schema.is_null()) return;
    if (!schema.is_object()) return Fail(place, "must be a JSON schema, an object, not: ", schema);
    const Json& type = Member(schema, "type");
    if (!type.is_null() && type != "object") {
      return Fail(place, "must be a schema of type object, not: ", type);
    }
    tool->parameters = WriteJson(schema);
    schema_bytes_ += tool->parameters.size();
    if (schema_bytes_ > kMaxToolSchemaBytes) {
      return fields_->Fail(place.c_str(),
                           fmt::format("may have, all tools together, {} bytes, not: {}",
                                       kMaxToolSchemaBytes, schema_bytes_));
    }
  }

  FieldReader* fields_;
  std::size_t schema_bytes_ = 0;
};

// The name that a tool_choice of one function has.
std::string NamedChoice(const Json& choice, FieldReader* fields) {
  const Json& name = Member(Member(choice, "function"), "name");
  if (Member(choice, "type") == "function" && name.is_string()) return name.get<std::string>();
  fields->Fail("tool_choice",
               "must be none, auto, required or {\"type\": \"function\", \"function\": {\"name\": "
               "...}}, not: " +
                   Shown(choice));
  return {};
}

void ReadChoice(FieldReader* fields, ToolFields* tools) {
  tools->callable = tools->told;
  tools->choice = tools->told.empty() ? ToolChoice::kNone : ToolChoice::kAuto;
  const Json* choice = fields->Find("tool_choice");
  if (choice == nullptr) return;
  if (*choice == "none") {
    tools->choice = ToolChoice::kNone;
    return;
  }
  if (*choice == "auto") return;
  std::string named;
  if (*choice != "required") named = NamedChoice(*choice, fields);
  if (!fields->ok()) return;
  if (tools->told.empty()) {
    return fields->Fail("tool_choice", "needs tools beside it, not: " + Shown(*choice));
  }
  tools->choice = ToolChoice::kRequired;
  if (named.empty()) return;
  std::erase_if(tools->callable, [&](const ChatTool& tool) { return tool.name != named; });
  if (tools->callable.empty()) {
    fields->Fail("tool_choice", "must name one of the tools, not: " + Shown(Json(named)));
  }
}

}  // namespace

ToolFields ReadTools(FieldReader* fields) {
  ToolFields tools;
  const Json* field = fields->Find("tools");
  if (field != nullptr && (!field->is_array() || field->size() > kMaxTools)) {
    fields->Fail("tools",
                 fmt::format("must be a list of at most {} tools, not: {}", kMaxTools,
                             field->is_array() ? std::to_string(field->size()) : Shown(*field)));
  }
  if (!fields->ok()) return tools;
  ToolReader reader(fields);
  tools.told.resize(field == nullptr ? 0 : field->size());
  for (std::size_t i = 0; i < tools.told.size() && fields->ok(); ++i) {
    reader.Read(i, (*field)[i], &tools.told[i]);
    const auto same = [&](const ChatTool& tool) {
      return RuleName(tool.name) == RuleName(tools.told[i].name);
    };
    const auto here = tools.told.begin() + static_cast<std::ptrdiff_t>(i);
    if (fields->ok() && std::find_if(tools.told.begin(), here, same) != here) {
      fields->Fail(
          fmt::format("tools[{}].function.name", i).c_str(),
          "must differ from the others in more than - and _, not: " + Shown(Json(here->name)));
    }
  }
  fields->Boolean("parallel_tool_calls", &tools.parallel_calls);
  if (fields->ok()) ReadChoice(fields, &tools);
  return tools;
}

std::optional<ApiError> FindWrongSchema(const Vocabulary& vocabulary,
                                        const std::vector<ChatTool>& tools) {
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const Result<std::string> grammar = GrammarFromJsonSchema(tools[i].parameters);
    const Status status =
        grammar.ok() ? CheckGrammarSyntax(*grammar, vocabulary) : grammar.status();
    if (status.ok()) continue;
    const std::string place = fmt::format("tools[{}].function.parameters", i);
    return ApiError{.message = place + " is refused: " + status.message(), .param = place};
  }
  return std::nullopt;
}

std::vector<ChatToolCall> ReadToolCalls(const Json& message, const std::string& place,
                                        FieldReader* fields) {
  const Json& list = Member(message, "tool_calls");
  std::vector<ChatToolCall> calls;
  if (list.is_null()) return calls;
  if (!list.is_array() || list.size() > kMaxToolCalls) {
    fields->Fail((place + ".tool_calls").c_str(),
                 fmt::format("must be a list of at most {} calls, not: {}", kMaxToolCalls,
                             list.is_array() ? std::to_string(list.size()) : Shown(list)));
    return calls;
  }
  for (const Json& call : list) {
    const std::string here = fmt::format("{}.tool_calls[{}]", place, calls.size());
    const Json& function = Member(call, "function");
    const Json& id = Member(call, "id");
    const Json& name = Member(function, "name");
    const Json& arguments = Member(function, "arguments");
    if (!name.is_string() || !(id.is_null() || id.is_string())) {
      fields->Fail(here.c_str(),
                   "must be {\"id\": ..., \"type\": \"function\", \"function\": {\"name\": ..., "
                   "\"arguments\": ...}}, not: " +
                       Shown(call));
      return calls;
    }
    // Templates take arguments as JSON values; some clients send them so.
    const std::string text = arguments.is_string()   ? arguments.get<std::string>()
                             : arguments.is_object() ? WriteJson(arguments)
                                                     : std::string();
    const Result<Json> parsed = ParseJsonBody(text.empty() ? "{}" : text);
    if (!parsed.ok() || !(arguments.is_string() || arguments.is_object())) {
      fields->Fail((here + ".function.arguments").c_str(),
                   "must be the text of a JSON object, not: " + Shown(arguments));
      return calls;
    }
    calls.push_back({.id = id.is_string() ? id.get<std::string>() : "",
                     .name = name.get<std::string>(),
                     .arguments = text.empty() ? "{}" : text});
  }
  return calls;
}

}  // namespace swiftkv
