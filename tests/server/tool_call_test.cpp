// SPDX-License-Identifier: Apache-2.0
// Tests tools over the API: fields, forced calls whole and streamed, and histories with results.
#include <set>

#include "model/chat_templates.h"
#include "server/served_tiny_model.h"
#include "server/tool_fields.h"

namespace swiftkv {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kChat = "/v1/chat/completions";

Json Tool(const char* name, Json parameters) {
  return {
      {"type", "function"},
      {"function", {{"name", name}, {"description", "d"}, {"parameters", std::move(parameters)}}}};
}

// Whatever the weights, a call of this tool that keeps to the schema has one argument of two
// values.
Json Light() {
  return Tool("light", {{"type", "object"},
                        {"properties", {{"state", {{"enum", {"on", "off"}}}}}},
                        {"required", {"state"}}});
}
Json Door() {
  return Tool("door", {{"type", "object"},
                       {"properties", {{"open", {{"type", "boolean"}}}}},
                       {"required", {"open"}}});
}

Json Body(Json tools) {
  return {{"messages", {{{"role", "user"}, {"content", "Go"}}}},
          {"tools", std::move(tools)},
          {"max_tokens", 200},
          {"temperature", 1},
          {"seed", 3}};
}

ServedTinyModel Served(const char* source = kTaggedTools) {
  return ServedTinyModel({}, {}, {.context = 1024}, source);
}

void ExpectLightCall(const Json& call) {
  EXPECT_EQ(call["type"], "function");
  EXPECT_THAT(call["id"].get<std::string>(), StartsWith("call_"));
  EXPECT_EQ(call["function"]["name"], "light");
  const Json arguments = Json::parse(call["function"]["arguments"].get<std::string>());
  ASSERT_EQ(arguments.size(), 1U);
  EXPECT_TRUE(arguments["state"] == "on" || arguments["state"] == "off") << arguments;
}

class ToolCallTest : public testing::TestWithParam<const char*> {
 protected:
  ServedTinyModel served_{{}, {}, {.context = 1024}, GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Templates, ToolCallTest,
                         testing::Values(kTaggedTools, kBareTools, kNoTools), [](const auto& info) {
                           return std::string(info.param == kTaggedTools ? "Tagged"
                                              : info.param == kBareTools ? "Bare"
                                                                         : "None");
                         });

TEST_P(ToolCallTest, ARequiredCallKeepsToTheSchema) {
  for (int seed = 0; seed < 2; ++seed) {
    Json body = Body(Json::array({Light()}));
    body["tool_choice"] = "required";
    body["seed"] = seed;
    body["parallel_tool_calls"] = false;
    const ApiReply reply = served_.PostJson(kChat, body);
    ASSERT_EQ(reply.status, 200) << reply.body;
    const Json& choice = reply.body["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "tool_calls");
    EXPECT_TRUE(choice["message"]["content"].is_null()) << choice;
    ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U) << choice;
    ExpectLightCall(choice["message"]["tool_calls"][0]);
  }
}

TEST_P(ToolCallTest, ANamedChoiceCallsThatToolAndNoOther) {
  Json body = Body(Json::array({Door(), Light(), Tool("other", {{"type", "object"}})}));
  body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "light"}}}};
  body["parallel_tool_calls"] = false;
  const ApiReply reply = served_.PostJson(kChat, body);
  ASSERT_EQ(reply.status, 200) << reply.body;
  ASSERT_EQ(reply.body["choices"][0]["message"]["tool_calls"].size(), 1U);
  ExpectLightCall(reply.body["choices"][0]["message"]["tool_calls"][0]);
}

// One call as a client puts it together from deltas.
struct Joined {
  std::string id;
  std::string name;
  std::string arguments;
};

TEST_P(ToolCallTest, StreamedDeltasJoinToTheWholeReply) {
  for (int seed = 0; seed < 2; ++seed) {
    Json body = Body(Json::array({Light(), Door()}));
    body["max_tokens"] = 120;
    body["tool_choice"] = "required";
    body["seed"] = seed;
    const ApiReply whole = served_.PostJson(kChat, body);
    body["stream"] = true;
    const ApiReply streamed = served_.PostJson(kChat, body);
    ASSERT_TRUE(streamed.ended_well);
    std::vector<Joined> calls;
    std::string content;
    std::string finish;
    for (const Json& event : streamed.events) {
      const Json& choice = event["choices"][0];
      EXPECT_EQ(finish, "") << "nothing follows the finish reason";
      if (!choice["finish_reason"].is_null()) finish = choice["finish_reason"].get<std::string>();
      const Json& delta = choice["delta"];
      if (delta.contains("content")) content += delta["content"].get<std::string>();
      if (!delta.contains("tool_calls")) continue;
      for (const Json& call : delta["tool_calls"]) {
        const auto index = call["index"].get<std::size_t>();
        const Json& function = call["function"];
        if (function.contains("name")) {
          ASSERT_EQ(index, calls.size());
          EXPECT_EQ(call["type"], "function");
          calls.push_back({call["id"].get<std::string>(), function["name"].get<std::string>(), ""});
        } else {
          EXPECT_FALSE(call.contains("id"));
        }
        ASSERT_LT(index, calls.size());
        calls[index].arguments += function["arguments"].get<std::string>();
      }
    }
    const Json& message = whole.body["choices"][0]["message"];
    EXPECT_EQ(finish, whole.body["choices"][0]["finish_reason"]);
    ASSERT_TRUE(message.contains("tool_calls")) << whole.body;
    ASSERT_EQ(calls.size(), message["tool_calls"].size());
    std::set<std::string> ids;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      EXPECT_EQ(calls[i].name, message["tool_calls"][i]["function"]["name"]);
      EXPECT_EQ(calls[i].arguments, message["tool_calls"][i]["function"]["arguments"]);
      ids.insert(calls[i].id);
    }
    EXPECT_EQ(ids.size(), calls.size());
    EXPECT_EQ(Json(content), message["content"].is_null() ? Json("") : message["content"]);
  }
}

TEST_P(ToolCallTest, AFreeChoiceThatCallsNothingIsContent) {
  Json body = Body(Json::array({Light()}));
  body["max_tokens"] = 8;
  body["ignore_eos"] = true;
  for (const char* choice : {"auto", "none"}) {
    body["tool_choice"] = choice;
    const ApiReply reply = served_.PostJson(kChat, body);
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.body["choices"][0]["finish_reason"], "length");
    EXPECT_FALSE(reply.body["choices"][0]["message"].contains("tool_calls"));
  }
}

TEST_P(ToolCallTest, AFormatBesideToolsHoldsTheContentOfAReplyThatCallsNothing) {
  Json body = Body(Json::array({Light()}));
  body["parallel_tool_calls"] = false;
  body["response_format"] = {{"type", "json_schema"},
                             {"json_schema", {{"schema", {{"enum", {"yes", "no"}}}}}}};
  const TokenId quote = served_.vocabulary().EncodeText("\"").value().front();
  int contents = 0;
  for (const char* choice : {"auto", "none", "required"}) {
    body["tool_choice"] = choice;
    for (const int bias : {100, -5}) {  // towards content, and away from it
      body["logit_bias"] = {{std::to_string(quote), bias}};
      const ApiReply reply = served_.PostJson(kChat, body);
      ASSERT_EQ(reply.status, 200) << reply.body;
      const Json& said = reply.body["choices"][0];
      if (said["message"].contains("tool_calls")) {
        EXPECT_STRNE(choice, "none");
        EXPECT_EQ(said["finish_reason"], "tool_calls");
        ExpectLightCall(said["message"]["tool_calls"][0]);
        EXPECT_TRUE(said["message"]["content"].is_null());
        continue;
      }
      EXPECT_STRNE(choice, "required");
      EXPECT_EQ(said["finish_reason"], "stop");
      const std::string content = said["message"]["content"];
      EXPECT_TRUE(content == "\"yes\"" || content == "\"no\"") << content;
      ++contents;
    }
  }
  EXPECT_GE(contents, 3) << "where nothing may be called, and where the model would rather not";
}

TEST_P(ToolCallTest, ACallThatIsCutShortEndsByLengthWithItsBeginning) {
  Json body = Body(Json::array({Light()}));
  body["tool_choice"] = "required";
  body["parallel_tool_calls"] = false;
  const ApiReply whole = served_.PostJson(kChat, body);
  const int tokens = whole.body["usage"]["completion_tokens"].get<int>();
  const std::string arguments =
      whole.body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"];
  for (int cap = 1; cap < tokens; cap += 1 + tokens / 6) {
    body["max_tokens"] = cap;
    const ApiReply cut = served_.PostJson(kChat, body);
    ASSERT_EQ(cut.status, 200) << cut.body;
    const Json& choice = cut.body["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "length");
    if (!choice["message"].contains("tool_calls")) continue;
    const std::string begun = choice["message"]["tool_calls"][0]["function"]["arguments"];
    EXPECT_TRUE(arguments.starts_with(begun)) << begun;
  }
}

TEST_P(ToolCallTest, AHistoryOfCallsAndResultsIsTaken) {
  Json body = Body(Json::array({Light()}));
  body["max_tokens"] = 1;
  body["messages"].push_back(
      {{"role", "assistant"},
       {"content", nullptr},
       {"tool_calls",
        {{{"id", "call_1"},
          {"type", "function"},
          {"function", {{"name", "light"}, {"arguments", "{\"state\": \"on\"}"}}}}}}});
  body["messages"].push_back(
      {{"role", "tool"}, {"tool_call_id", "call_1"}, {"content", "it is on"}});
  const ApiReply reply = served_.PostJson(kChat, body);
  EXPECT_EQ(reply.status, 200) << reply.body;
  body.erase("tools");
  EXPECT_EQ(served_.PostJson(kChat, body).status, 200);
}

TEST(ToolFieldsTest, RefusesToolsByThePlaceOfTheFault) {
  ServedTinyModel served = Served();
  const Json good = Light();
  const auto with = [](const char* path, Json value) {
    Json tool = Light();
    tool[Json::json_pointer(path)] = std::move(value);
    return tool;
  };
  const std::vector<std::pair<Json, std::string>> refused = {
      {Json("x"), "tools"},
      {Json{{"a", 1}}, "tools"},
      {Json::array({1}), "tools[0].type"},
      {Json::array({good, with("/type", "retrieval")}), "tools[1].type"},
      {Json::array({with("/function/name", "")}), "tools[0].function.name"},
      {Json::array({with("/function/name", "no spaces")}), "tools[0].function.name"},
      {Json::array({with("/function/name", std::string(65, 'a'))}), "tools[0].function.name"},
      {Json::array({with("/function/name", 7)}), "tools[0].function.name"},
      {Json::array({good, good}), "tools[1].function.name"},
      {Json::array({with("/function/name", "a_b"), with("/function/name", "a-b")}),
       "tools[1].function.name"},
      {Json::array({with("/function/description", 7)}), "tools[0].function.description"},
      {Json::array({with("/function/parameters", 7)}), "tools[0].function.parameters"},
      {Json::array({with("/function/parameters", {{"type", "array"}})}),
       "tools[0].function.parameters"},
      {Json::array({with("/function/parameters/properties/state", {{"$ref", "#/none"}})}),
       "tools[0].function.parameters"},
      {Json::array({Door(), with("/function/parameters/properties/state", {{"type", "nonsense"}})}),
       "tools[1].function.parameters"},
  };
  for (const auto& [tools, param] : refused) {
    const ApiReply reply = served.PostJson(kChat, Body(tools));
    EXPECT_EQ(reply.status, 400) << tools;
    EXPECT_EQ(reply.body["error"]["param"], param) << tools << reply.body;
    EXPECT_THAT(reply.message(), StartsWith(param));
  }
  Json many = Json::array();
  for (std::size_t i = 0; i <= kMaxTools; ++i) {
    many.push_back(Tool(("f" + std::to_string(i)).c_str(), {{"type", "object"}}));
  }
  EXPECT_EQ(served.PostJson(kChat, Body(many)).body["error"]["param"], "tools");
}

TEST(ToolFieldsTest, RefusesChoicesAndCallsThatMakeNoSense) {
  ServedTinyModel served = Served();
  const auto refused = [&](const Json& body, const char* param) {
    const ApiReply reply = served.PostJson(kChat, body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_EQ(reply.body["error"]["param"], param) << reply.body;
  };
  for (const Json& choice : {Json("sometimes"), Json(1), Json{{"type", "function"}},
                             Json{{"type", "function"}, {"function", {{"name", "none_such"}}}}}) {
    Json body = Body(Json::array({Light()}));
    body["tool_choice"] = choice;
    refused(body, "tool_choice");
  }
  Json body = Body(Json::array());
  body["tool_choice"] = "required";
  refused(body, "tool_choice");
  body = Body(Json::array({Light()}));
  body["parallel_tool_calls"] = 1;
  refused(body, "parallel_tool_calls");
  body = Body(Json::array({Light()}));
  body["tool_choice"] = "none";
  body["max_tokens"] = 1;
  EXPECT_EQ(served.PostJson(kChat, body).status, 200);
  for (const Json& arguments : {Json("{"), Json("[1]"), Json(7), Json(std::string(9000, '['))}) {
    body = Body(Json::array({Light()}));
    body["messages"].push_back({{"role", "assistant"},
                                {"tool_calls",
                                 {{{"id", "1"},
                                   {"type", "function"},
                                   {"function", {{"name", "light"}, {"arguments", arguments}}}}}}});
    refused(body, "messages[1].tool_calls[0].function.arguments");
  }
}

TEST(ToolFieldsTest, ChecksTheSchemaOfAResponseFormatByTheSameLimits) {
  ServedTinyModel served = Served();
  Json deep = {{"type", "string"}};
  for (int i = 0; i < 30; ++i) deep = {{"type", {"array", "array"}}, {"items", deep}};
  Json body = Body(Json::array());
  body["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"schema", deep}}}};
  const ApiReply reply = served.PostJson(kChat, body);
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body["error"]["param"], "response_format");
}

TEST(ReasoningReplyTest, ASchemaHoldsBehindReasoningThatThePromptHasClosed) {
  ServedTinyModel served = Served(kThinking);
  Json body = Body(Json::array());
  body["response_format"] = {{"type", "json_schema"},
                             {"json_schema", {{"schema", {{"enum", {"on", "off"}}}}}}};
  body["chat_template_kwargs"] = {{"enable_thinking", false}};
  for (int seed = 0; seed < 3; ++seed) {
    body["seed"] = seed;
    const ApiReply reply = served.PostJson(kChat, body);
    ASSERT_EQ(reply.status, 200) << reply.body;
    const std::string content = reply.body["choices"][0]["message"]["content"];
    EXPECT_TRUE(content == "\"on\"" || content == "\"off\"") << content;
    EXPECT_EQ(reply.body["choices"][0]["finish_reason"], "stop");
  }
}

// Tagged calls behind reasoning between tags.
std::string ThinkingTools() {
  std::string source = kTaggedTools;
  const auto insert_behind = [&source](const std::string& mark, const std::string& text) {
    source.insert(source.find(mark) + mark.size(), text);
  };
  insert_behind("{{- '<|im_start|>assistant' }}\n",
                "{%- if m['reasoning_content'] %}{{- '\n<think>\n' + m['reasoning_content'] + "
                "'\n</think>\n' }}{%- endif %}\n");
  insert_behind("{{- '<|im_start|>assistant\\n' }}",
                "{%- if enable_thinking is defined and not enable_thinking %}"
                "{{- '<think>\n\n</think>\n\n' }}{%- endif %}");
  return source;
}

TEST(ReasoningReplyTest, ASchemaBesideToolsIsRefusedWhereAReplyMayThink) {
  ServedTinyModel served = Served(ThinkingTools().c_str());
  Json body = Body(Json::array({Light()}));
  body["response_format"] = {{"type", "json_object"}};
  const ApiReply reply = served.PostJson(kChat, body);
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body["error"]["param"], "response_format");
  body["chat_template_kwargs"] = {{"enable_thinking", false}};
  EXPECT_EQ(served.PostJson(kChat, body).status, 200);
}

TEST(ReasoningReplyTest, FieldsOfReasoningAreChecked) {
  ServedTinyModel served = Served(kThinking);
  Json body = Body(Json::array());
  body["max_tokens"] = 4;
  for (const char* format : {"auto", "deepseek", "none"}) {
    body["reasoning_format"] = format;
    EXPECT_EQ(served.PostJson(kChat, body).status, 200) << format;
  }
  body["reasoning_format"] = "other";
  EXPECT_EQ(served.PostJson(kChat, body).body["error"]["param"], "reasoning_format");
}

}  // namespace
}  // namespace swiftkv
