// SPDX-License-Identifier: Apache-2.0
// Tests replies on both routes, whole and streamed: equal texts, usage, reasons of the end.
#include "server/generation.h"

#include "base/utf8.h"
#include "server/served_tiny_model.h"

namespace swiftkv {
namespace {

constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kChat = "/v1/chat/completions";

// One choice as its reader has put it together.
struct Told {
  std::string text;
  std::string finish;
  int finishes = 0;
  Json logprobs = Json::array();  // the tokens that they are told of
};

void Add(const Json& choice, bool chat, Told* told) {
  if (chat) {
    const Json& part = choice.contains("delta") ? choice["delta"] : choice["message"];
    if (part.contains("content")) told->text += part["content"].get<std::string>();
  } else {
    told->text += choice["text"].get<std::string>();
  }
  const Json& logprobs = choice["logprobs"];
  if (!logprobs.is_null()) {
    // Values may differ in their last bits: the second time the prompt is found in the cache.
    for (const Json& entry : logprobs[chat ? "content" : "tokens"]) {
      told->logprobs.push_back(chat ? entry["bytes"] : entry);
    }
  }
  if (choice["finish_reason"].is_null()) return;
  told->finish = choice["finish_reason"].get<std::string>();
  ++told->finishes;
}

struct Reply {
  std::vector<Told> choices;
  Json usage;
};

// A greedy request on either route, whole or streamed.
Reply Ask(ServedTinyModel* served, const std::string& path, Json body, bool stream) {
  const bool chat = path == kChat;
  const int choices = body.value("n", 1) * body.value("prompts", 1);
  body.erase("prompts");
  if (!body.contains("temperature")) body["temperature"] = 0;
  if (stream) {
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
  }
  if (chat) body["messages"] = Json::array({{{"role", "user"}, {"content", "Hello there"}}});
  if (!chat && !body.contains("prompt")) body["prompt"] = "Hello there";
  const ApiReply reply = served->PostJson(path, body);
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.streamed, stream);
  EXPECT_EQ(reply.ended_well, stream);
  Reply told;
  told.choices.resize(static_cast<std::size_t>(choices));
  const auto add = [&](const Json& object) {
    for (const Json& choice : object["choices"]) {
      Add(choice, chat, &told.choices.at(choice["index"].get<std::size_t>()));
    }
    if (object.contains("usage") && !object["usage"].is_null()) told.usage = object["usage"];
  };
  if (!stream) add(reply.body);
  for (const Json& event : reply.events) {
    EXPECT_TRUE(told.usage.is_null()) << "usage comes last";
    add(event);
  }
  for (const Told& one : told.choices) {
    EXPECT_EQ(one.finishes, 1);
    EXPECT_TRUE(IsValidUtf8(one.text));
  }
  return told;
}

class GenerationTest : public testing::TestWithParam<const char*> {
 protected:
  Reply Ask(const Json& body, bool stream) {
    return swiftkv::Ask(&served_, GetParam(), body, stream);
  }

  ServedTinyModel served_;
};

TEST_P(GenerationTest, StreamsTheVeryTextUsageAndReasonOfTheWholeReply) {
  for (const Json& body : {Json{{"max_tokens", 40}}, Json{{"max_tokens", 40}, {"ignore_eos", true}},
                           Json{{"max_tokens", 20}, {"n", 3}, {"seed", 5}, {"temperature", 1}},
                           Json{{"max_tokens", 1}}}) {
    const Reply whole = Ask(body, false);
    const Reply streamed = Ask(body, true);
    for (std::size_t i = 0; i < whole.choices.size(); ++i) {
      EXPECT_EQ(streamed.choices[i].text, whole.choices[i].text);
      EXPECT_EQ(streamed.choices[i].finish, whole.choices[i].finish);
    }
    EXPECT_EQ(
        whole.usage["total_tokens"].get<int>(),
        whole.usage["prompt_tokens"].get<int>() + whole.usage["completion_tokens"].get<int>());
    EXPECT_EQ(streamed.usage["completion_tokens"], whole.usage["completion_tokens"]);
    EXPECT_LT(streamed.usage["prompt_tokens_details"]["cached_tokens"],
              streamed.usage["prompt_tokens"]);
  }
}

TEST_P(GenerationTest, EndsBeforeAStopStringOnEveryRoute) {
  const std::string text = Ask({{"max_tokens", 60}, {"ignore_eos", true}}, false).choices[0].text;
  ASSERT_GT(text.size(), 30U);
  const std::size_t begin = ValidUtf8Prefix(std::string_view(text).substr(0, 12));
  const std::size_t size = ValidUtf8Prefix(std::string_view(text).substr(begin, 9));
  ASSERT_GT(size, 0U);
  const std::string stop = text.substr(begin, size);
  const std::string expected = text.substr(0, text.find(stop));
  for (const bool stream : {false, true}) {
    const Reply reply = Ask(
        {{"max_tokens", 60}, {"ignore_eos", true}, {"stop", {"never said, surely", stop}}}, stream);
    EXPECT_EQ(reply.choices[0].text, expected);
    EXPECT_EQ(reply.choices[0].finish, "stop");
    EXPECT_LT(reply.usage["completion_tokens"], 60);
  }
}

TEST_P(GenerationTest, SaysLengthWhereTheCapWasHit) {
  const Reply reply = Ask({{"max_tokens", 7}, {"ignore_eos", true}}, true);
  EXPECT_EQ(reply.choices[0].finish, "length");
  EXPECT_EQ(reply.usage["completion_tokens"], 7);
}

TEST_P(GenerationTest, TellsOneLogprobForEachTokenInEitherMode) {
  Json body = {{"max_tokens", 9}, {"ignore_eos", true}};
  if (GetParam() == kChat) {
    body["logprobs"] = true;
    body["top_logprobs"] = 3;
  } else {
    body["logprobs"] = 3;
  }
  const Reply whole = Ask(body, false);
  EXPECT_EQ(whole.choices[0].logprobs.size(), 9U);
  EXPECT_EQ(Ask(body, true).choices[0].logprobs, whole.choices[0].logprobs);
}

TEST_P(GenerationTest, CachesAPromptThatIsAskedTwice) {
  Json body = {{"max_tokens", 1}};
  if (GetParam() == kCompletions) body["prompt"] = TinyPrompt(100);
  const Reply first = Ask(body, false);
  const Reply second = Ask(body, false);
  EXPECT_GE(second.usage["prompt_tokens_details"]["cached_tokens"],
            first.usage["prompt_tokens_details"]["cached_tokens"]);
  EXPECT_EQ(second.choices[0].text, first.choices[0].text);
}

INSTANTIATE_TEST_SUITE_P(Routes, GenerationTest, testing::Values(kCompletions, kChat),
                         [](const auto& info) {
                           return std::string(info.param == kChat ? "Chat" : "Completions");
                         });

TEST(CompletionTest, NumbersTheChoicesOfSeveralPromptsInOrder) {
  ServedTinyModel served;
  const Json prompts = {TinyPrompt(20, 1), TinyPrompt(30, 2), TinyPrompt(40, 3)};
  const Json body = {
      {"max_tokens", 8}, {"ignore_eos", true}, {"n", 2}, {"seed", 1}, {"temperature", 1}};
  Json all = body;
  all["prompt"] = prompts;
  all["prompts"] = 3;
  const Reply together = Ask(&served, kCompletions, all, false);
  EXPECT_EQ(together.usage["prompt_tokens"], 90);
  EXPECT_EQ(together.usage["completion_tokens"], 48);
  for (std::size_t i = 0; i < 3; ++i) {
    Json one = body;
    one["prompt"] = prompts[i];
    const Reply alone = Ask(&served, kCompletions, one, false);
    for (std::size_t choice = 0; choice < 2; ++choice) {
      EXPECT_EQ(together.choices[2 * i + choice].text, alone.choices[choice].text);
    }
  }
}

TEST(CompletionTest, EchoesThePromptBeforeTheReply) {
  ServedTinyModel served;
  const Json body = {{"prompt", "Once upon"}, {"max_tokens", 5}, {"ignore_eos", true}};
  const std::string reply = Ask(&served, kCompletions, body, false).choices[0].text;
  Json echoed = body;
  echoed["echo"] = true;
  for (const bool stream : {false, true}) {
    EXPECT_EQ(Ask(&served, kCompletions, echoed, stream).choices[0].text, "Once upon" + reply);
  }
  echoed["max_tokens"] = 0;
  const Reply alone = Ask(&served, kCompletions, echoed, true);
  EXPECT_EQ(alone.choices[0].text, "Once upon");
  EXPECT_EQ(alone.choices[0].finish, "length");
  EXPECT_EQ(alone.usage["completion_tokens"], 0);
  EXPECT_EQ(served.PostJson(kCompletions, Json{{"prompt", "a"}, {"max_tokens", 0}}).status, 400);
}

// The log-probabilities of a whole reply.
Json LogprobsOf(ServedTinyModel* served, const Json& body) {
  const ApiReply reply = served->PostJson(kCompletions, body);
  EXPECT_EQ(reply.status, 200) << reply.body;
  return reply.body["choices"][0]["logprobs"];
}

TEST(CompletionTest, TellsLogprobsOfAnEchoedPrompt) {
  ServedTinyModel served;
  const std::vector<TokenId> prompt = TinyPrompt(7 * 16 + 5);
  Json body = {{"prompt", prompt}, {"max_tokens", 5},    {"echo", true},
               {"logprobs", 1},    {"ignore_eos", true}, {"temperature", 0}};
  const Json first = LogprobsOf(&served, body);
  ASSERT_EQ(first["tokens"].size(), prompt.size() + 5);
  for (const char* name : {"token_logprobs", "top_logprobs"}) {
    ASSERT_EQ(first[name].size(), prompt.size() + 5);
    EXPECT_TRUE(first[name][0].is_null());
    for (std::size_t i = 1; i < prompt.size() + 5; ++i) EXPECT_FALSE(first[name][i].is_null());
  }
  EXPECT_EQ(LogprobsOf(&served, body), first) << "whatever the cache holds by now";
  // A prompt is told the same whatever follows it.
  body["max_tokens"] = 0;
  const Json alone = LogprobsOf(&served, body);
  ASSERT_EQ(alone["tokens"].size(), prompt.size());
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    EXPECT_EQ(alone["token_logprobs"][i], first["token_logprobs"][i]);
    EXPECT_EQ(alone["text_offset"][i], first["text_offset"][i]);
  }
  // As the same token is told where it is drawn.
  const std::vector<TokenId> shorter(prompt.begin(), prompt.end() - 1);
  const Json drawn = LogprobsOf(&served, {{"prompt", shorter},
                                          {"max_tokens", 1},
                                          {"logprobs", 1},
                                          {"logit_bias", {{std::to_string(prompt.back()), 100}}}});
  EXPECT_NEAR(drawn["token_logprobs"][0].get<float>(), alone["token_logprobs"].back().get<float>(),
              kLogprobBound);
}

TEST(CompletionTest, StreamsLogprobsOfAnEchoedPromptForEachChoice) {
  ServedTinyModel served;
  const Json body = {
      {"prompt", "Once upon a time"}, {"max_tokens", 3}, {"echo", true}, {"n", 2}, {"logprobs", 0},
      {"ignore_eos", true},           {"seed", 1}};
  const Reply whole = Ask(&served, kCompletions, body, false);
  const Reply streamed = Ask(&served, kCompletions, body, true);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_THAT(whole.choices[i].text, testing::StartsWith("Once upon a time"));
    EXPECT_EQ(streamed.choices[i].text, whole.choices[i].text);
    EXPECT_EQ(streamed.choices[i].logprobs, whole.choices[i].logprobs);
    std::string joined;
    for (const Json& token : whole.choices[i].logprobs) {
      const std::string name = token.get<std::string>();
      joined += name.starts_with("bytes:") ? "\xEF\xBF\xBD" : name;  // no whole character
    }
    EXPECT_EQ(joined, whole.choices[i].text);
  }
}

TEST(CompletionTest, HonoursSeedBiasAndStopTokens) {
  ServedTinyModel served;
  const TokenId forced = served.vocabulary().EncodeText("Q").value().front();
  Json body = {
      {"prompt", "Hello"}, {"max_tokens", 4}, {"logit_bias", {{std::to_string(forced), 100}}}};
  EXPECT_EQ(Ask(&served, kCompletions, body, false).choices[0].text, "QQQQ");
  body["stop_token_ids"] = {forced};
  const Reply stopped = Ask(&served, kCompletions, body, true);
  EXPECT_EQ(stopped.choices[0].text, "");
  EXPECT_EQ(stopped.choices[0].finish, "stop");
  const Json seeded = {{"prompt", "Hello"}, {"max_tokens", 20}, {"temperature", 1.5}, {"seed", 42}};
  EXPECT_EQ(Ask(&served, kCompletions, seeded, false).choices[0].text,
            Ask(&served, kCompletions, seeded, true).choices[0].text);
}

TEST(ChatTest, FollowsAJsonSchemaAndAnyJsonObject) {
  ServedTinyModel served;
  const Json schema = {{"type", "object"},
                       {"properties", {{"ok", {{"type", "boolean"}}}}},
                       {"required", {"ok"}},
                       {"additionalProperties", false}};
  const Json format = {{"type", "json_schema"},
                       {"json_schema", {{"name", "answer"}, {"schema", schema}}}};
  const Reply reply = Ask(&served, kChat, {{"max_tokens", 60}, {"response_format", format}}, true);
  const Json answer = Json::parse(reply.choices[0].text, nullptr, false);
  ASSERT_TRUE(answer.is_object()) << reply.choices[0].text;
  EXPECT_TRUE(answer["ok"].is_boolean());
  const Reply any = Ask(&served, kChat,
                        {{"max_tokens", 5}, {"response_format", {{"type", "json_object"}}}}, false);
  EXPECT_EQ(any.choices[0].text.front(), '{');
}

TEST(ChatTest, RefusesWhatItDoesNotServePlainly) {
  ServedTinyModel served;
  const std::string message = R"("messages": [{"role": "user", "content": "hi"}])";
  const std::vector<std::pair<std::string, std::string>> bodies = {
      {"messages", "{}"},
      {"messages", R"({"messages": []})"},
      {"messages", R"({"messages": "hi"})"},
      {"messages", R"({"messages": [7]})"},
      {"messages", R"({"messages": [{"content": "hi"}]})"},
      {"messages", R"({"messages": [{"role": "user"}]})"},
      {"messages", R"({"messages": [{"role": "", "content": "hi"}]})"},
      {"messages", R"({"messages": [{"role": "wizard", "content": "hi"}]})"},
      {"messages", R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})"},
      {"tools", "{" + message + R"(, "tools": {"type": "function"}})"},
      {"tool_choice", "{" + message + R"(, "tool_choice": "required"})"},
      {"modalities", "{" + message + R"(, "modalities": ["audio"]})"},
      {"response_format", "{" + message + R"(, "response_format": {"type": "xml"}})"},
      {"response_format", "{" + message + R"(, "response_format": {"type": "json_schema"}})"},
      {"top_logprobs", "{" + message + R"(, "top_logprobs": 3})"},
      {"top_logprobs", "{" + message + R"(, "logprobs": true, "top_logprobs": 21})"},
      {"top_logprobs", "{" + message + R"(, "logprobs": true, "top_logprobs": -1})"},
      {"logprobs", "{" + message + R"(, "logprobs": 2})"},
      {"max_completion_tokens", "{" + message + R"(, "max_completion_tokens": 0})"},
  };
  for (const auto& [param, body] : bodies) {
    const ApiReply reply = served.Post(kChat, body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_EQ(reply.body["error"]["param"], param) << body;
  }
}

TEST(ChatTest, TellsLogprobsAsTheApiDoes) {
  ServedTinyModel served;
  const Json body = {{"messages", {{{"role", "user"}, {"content", "hi"}}}},
                     {"max_tokens", 6},
                     {"temperature", 0},
                     {"ignore_eos", true},
                     {"logprobs", true},
                     {"top_logprobs", 2}};
  const ApiReply reply = served.PostJson(kChat, body);
  for (const Json& entry : reply.body["choices"][0]["logprobs"]["content"]) {
    EXPECT_LE(entry["logprob"], 0);
    EXPECT_TRUE(entry["bytes"].is_array());
    ASSERT_EQ(entry["top_logprobs"].size(), 2U);
    EXPECT_GE(entry["top_logprobs"][0]["logprob"], entry["top_logprobs"][1]["logprob"]);
  }
}

TEST(GenerationCancelTest, LeavesNothingBehindWhereItsReaderGoes) {
  ServedTinyModel served;
  for (int i = 0; i < 5; ++i) {
    HttpRequest request;
    request.method = "POST";
    request.path = kCompletions;
    request.body = WriteJson({{"prompt", TinyPrompt(50, i)},
                              {"max_tokens", 100},
                              {"ignore_eos", true},
                              {"stream", i % 2 == 0}});
    ApiOutcome outcome = served.api().Handle(request, [] {});
    ASSERT_NE(outcome.generation, nullptr);
    outcome.generation->Advance();
  }
  served.tiny().ExpectDrained();
}

TEST(GenerationCancelTest, TellsClientsThatTheServerStopped) {
  ServedTinyModel served;
  HttpRequest request;
  request.method = "POST";
  request.path = kCompletions;
  request.body = WriteJson({{"prompt", TinyPrompt(50)}, {"max_tokens", 180}, {"ignore_eos", true}});
  ApiOutcome outcome = served.api().Handle(request, [] {});
  ASSERT_NE(outcome.generation, nullptr);
  served.api().StopEngine();
  outcome.generation->Advance();
  ASSERT_TRUE(outcome.generation->ended());
  const HttpReply reply = outcome.generation->TakeReply();
  // It may have been done before it was stopped.
  EXPECT_TRUE(reply.status == 503 || reply.status == 200) << reply.status;
}

}  // namespace
}  // namespace swiftkv
