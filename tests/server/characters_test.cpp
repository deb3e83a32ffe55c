// SPDX-License-Identifier: Apache-2.0
// Tests that characters of several tokens come whole, in replies that are told at once and in
// pieces.
//
// The tiny vocabularies have no token for any of these characters: each is a token a byte.
#include <algorithm>

#include "base/utf8.h"
#include "model/chat_templates.h"
#include "server/served_tiny_model.h"

namespace swiftkv {
namespace {

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kCompletions = "/v1/completions";

// Characters of four bytes, joined ones, flags, CJK, accents made of two.
constexpr const char* kCharacters =
    "\U0001F600\U0001F468\u200D\U0001F469\u200D\U0001F467 \U0001F1E9\U0001F1EA"
    "\u4F60\u597D, e\u0301\u00FC";

// A chat whose reply is that text in quotation marks, whatever the weights.
Json Body() {
  return {{"messages", {{{"role", "user"}, {"content", "Go"}}}},
          {"max_tokens", 200},
          {"temperature", 0},
          {"response_format",
           {{"type", "json_schema"}, {"json_schema", {{"schema", {{"enum", {kCharacters}}}}}}}}};
}

// Joins what the events of choice 0 tell; each piece must be whole characters.
std::string Joined(const ApiReply& reply, const char* path) {
  EXPECT_TRUE(reply.ended_well);
  std::string text;
  for (const Json& event : reply.events) {
    const Json& choice = event["choices"][0];
    const std::string piece = path == std::string(kChat) ? choice["delta"].value("content", "")
                                                         : choice["text"].get<std::string>();
    EXPECT_TRUE(IsValidUtf8(piece));
    text += piece;
  }
  return text;
}

TEST(CharactersTest, CharactersOfSeveralTokensComeWholeInEitherMode) {
  ServedTinyModel served({}, {}, {.context = 1024});
  Json body = Body();
  body["logprobs"] = true;
  const ApiReply whole = served.PostJson(kChat, body);
  ASSERT_EQ(whole.status, 200) << whole.body;
  const std::string quoted = "\"" + std::string(kCharacters) + "\"";
  EXPECT_EQ(whole.body["choices"][0]["message"]["content"], quoted);
  std::string bytes;
  std::size_t longest = 0;
  for (const Json& entry : whole.body["choices"][0]["logprobs"]["content"]) {
    longest = std::max(longest, entry["bytes"].size());
    for (const Json& byte : entry["bytes"]) bytes += static_cast<char>(byte.get<int>());
  }
  EXPECT_EQ(bytes, quoted) << "the bytes of all tokens are the text";
  EXPECT_LT(longest, 4U) << "no token is a whole character of four bytes";
  body["stream"] = true;
  EXPECT_EQ(Joined(served.PostJson(kChat, body), kChat), quoted);
}

TEST(CharactersTest, ACutInACharacterLeavesOneMarkAtTheEnd) {
  ServedTinyModel served({}, {}, {.context = 1024});
  const std::string quoted = "\"" + std::string(kCharacters) + "\"";
  int cut = 0;
  for (int cap = 1; cap < 40; cap += 3) {  // every remainder of four
    Json body = Body();
    body["max_tokens"] = cap;
    const std::string text =
        served.PostJson(kChat, body).body["choices"][0]["message"]["content"].get<std::string>();
    std::string kept = text;
    if (kept.ends_with(kReplacementCharacter)) {
      kept.resize(kept.size() - kReplacementCharacter.size());
      ++cut;
    }
    EXPECT_TRUE(quoted.starts_with(kept)) << text;
    body["stream"] = true;
    EXPECT_EQ(Joined(served.PostJson(kChat, body), kChat), text);
  }
  EXPECT_GT(cut, 3);
}

TEST(CharactersTest, BytesThatAreNoCharacterAreMarkedTheSameOnEveryRoute) {
  ServedTinyModel served({}, {}, {.context = 1024});
  const ApiReply told =
      served.PostJson("/tokenize", Json{{"prompt", "\u00E9"}, {"add_special_tokens", false}});
  ASSERT_EQ(told.body["count"], 2);
  Json body = {{"max_tokens", 60}, {"temperature", 1}, {"seed", 5}, {"ignore_eos", true}};
  for (const Json& token : told.body["tokens"]) {
    body["logit_bias"][std::to_string(token.get<int>())] = 100;
  }
  for (const char* path : {kChat, kCompletions}) {
    Json asked = body;
    if (path == std::string(kChat)) {
      asked["messages"] = Body()["messages"];
    } else {
      asked["prompt"] = "Go";
    }
    const Json choice = served.PostJson(path, asked).body["choices"][0];
    const std::string text =
        path == std::string(kChat) ? choice["message"]["content"] : choice["text"];
    EXPECT_NE(text.find("\u00E9"), std::string::npos) << text;
    EXPECT_NE(text.find(kReplacementCharacter), std::string::npos) << text;
    asked["stream"] = true;
    EXPECT_EQ(Joined(served.PostJson(path, asked), path), text);
  }
}

TEST(CharactersTest, AnEchoAndAStopKeepCharactersWhole) {
  ServedTinyModel served({}, {}, {.context = 1024});
  Json body = {{"prompt", kCharacters}, {"max_tokens", 4}, {"temperature", 0}, {"echo", true}};
  const std::string echoed =
      served.PostJson(kCompletions, body).body["choices"][0]["text"].get<std::string>();
  EXPECT_TRUE(echoed.starts_with(kCharacters)) << echoed;
  body["stream"] = true;
  EXPECT_EQ(Joined(served.PostJson(kCompletions, body), kCompletions), echoed);
  Json stopped = Body();
  stopped["stop"] = "\u597D";
  const std::string before = std::string("\"") + kCharacters;
  const std::string expected = before.substr(0, before.find("\u597D"));
  const Json choice = served.PostJson(kChat, stopped).body["choices"][0];
  EXPECT_EQ(choice["message"]["content"], expected);
  EXPECT_EQ(choice["finish_reason"], "stop");
  stopped["stream"] = true;
  EXPECT_EQ(Joined(served.PostJson(kChat, stopped), kChat), expected);
}

TEST(CharactersTest, ArgumentsOfCallsKeepCharactersWhole) {
  for (const char* source : {kTaggedTools, kBareTools, kNoTools}) {
    ServedTinyModel served({}, {}, {.context = 1024}, source);
    Json body = Body();
    body.erase("response_format");
    const Json schema = {{"type", "object"},
                         {"properties", {{"mood", {{"enum", {kCharacters}}}}}},
                         {"required", {"mood"}}};
    body["tools"] = {
        {{"type", "function"}, {"function", {{"name", "show"}, {"parameters", schema}}}}};
    body["tool_choice"] = "required";
    body["parallel_tool_calls"] = false;
    const Json message = served.PostJson(kChat, body).body["choices"][0]["message"];
    const std::string arguments = message["tool_calls"][0]["function"]["arguments"];
    EXPECT_EQ(Json::parse(arguments)["mood"], kCharacters);
    body["stream"] = true;
    std::string joined;
    for (const Json& event : served.PostJson(kChat, body).events) {
      for (const Json& call : event["choices"][0]["delta"].value("tool_calls", Json::array())) {
        const std::string piece = call["function"].value("arguments", "");
        EXPECT_TRUE(IsValidUtf8(piece));
        joined += piece;
      }
    }
    EXPECT_EQ(joined, arguments);
  }
}

}  // namespace
}  // namespace swiftkv
