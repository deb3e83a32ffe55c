// SPDX-License-Identifier: Apache-2.0
// Tests why replies end and what they are said to have taken, on both routes, whole and streamed.
#include <map>

#include "base/utf8.h"
#include "server/served_tiny_model.h"

namespace swiftkv {
namespace {

constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kChat = "/v1/chat/completions";

// What ends a reply and what it took.
struct Ending {
  std::string reason;
  int completion_tokens = 0;
  int prompt_tokens = 0;
  int cached_tokens = 0;
};

Ending Read(const Json& choice, const Json& usage) {
  Ending ending;
  ending.reason = choice["finish_reason"].get<std::string>();
  ending.completion_tokens = usage["completion_tokens"].get<int>();
  ending.prompt_tokens = usage["prompt_tokens"].get<int>();
  ending.cached_tokens = usage["prompt_tokens_details"]["cached_tokens"].get<int>();
  EXPECT_EQ(usage["total_tokens"], ending.prompt_tokens + ending.completion_tokens);
  EXPECT_LE(ending.cached_tokens, ending.prompt_tokens);
  return ending;
}

Ending Whole(const ApiReply& reply) { return Read(reply.body["choices"][0], reply.body["usage"]); }

Ending Streamed(const ApiReply& reply) {
  EXPECT_TRUE(reply.ended_well);
  Json last;
  std::map<int, int> reasons;  // of each choice
  for (const Json& event : reply.events) {
    if (event["choices"].empty() || event["choices"][0]["finish_reason"].is_null()) continue;
    last = event["choices"][0];
    ++reasons[last["index"].get<int>()];
  }
  for (const auto& [index, count] : reasons) EXPECT_EQ(count, 1) << index;
  EXPECT_FALSE(reasons.empty());
  return Read(last, reply.events.back()["usage"]);
}

class ReplyEndTest : public testing::TestWithParam<const char*> {
 protected:
  Json Body(Json fields) const {
    if (GetParam() == kChat) {
      fields["messages"] = Json::array({{{"role", "user"}, {"content", "Hello"}}});
    } else if (!fields.contains("prompt")) {
      fields["prompt"] = "Hello";
    }
    if (!fields.contains("temperature")) fields["temperature"] = 0;
    return fields;
  }

  // Asks both ways and expects the same of both.
  Ending Ask(const Json& fields) {
    Json body = Body(fields);
    const Ending whole = Whole(served_.PostJson(GetParam(), body));
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
    const Ending streamed = Streamed(served_.PostJson(GetParam(), body));
    EXPECT_EQ(streamed.reason, whole.reason);
    EXPECT_EQ(streamed.completion_tokens, whole.completion_tokens);
    EXPECT_EQ(streamed.prompt_tokens, whole.prompt_tokens);
    return whole;
  }

  ServedTinyModel served_;
};

TEST_P(ReplyEndTest, TellsCapEndOfTextStopStringAndContextApart) {
  const TokenId end = served_.vocabulary().end_of_generation_tokens().front();
  const TokenId letter = served_.vocabulary().EncodeText("Q").value().front();
  const Json ends = {{std::to_string(end), 100}};
  const Json letters = {{std::to_string(letter), 100}};
  const Ending cap = Ask({{"max_tokens", 5}, {"ignore_eos", true}});
  EXPECT_EQ(cap.reason, "length");
  EXPECT_EQ(cap.completion_tokens, 5);
  const Ending eos = Ask({{"max_tokens", 5}, {"logit_bias", ends}});
  EXPECT_EQ(eos.reason, "stop");
  EXPECT_EQ(eos.completion_tokens, 0);
  EXPECT_EQ(Ask({{"max_tokens", 1}, {"logit_bias", ends}}).reason, "stop")
      << "where the cap is too";
  const Ending stop = Ask({{"max_tokens", 9}, {"logit_bias", letters}, {"stop", "QQQ"}});
  EXPECT_EQ(stop.reason, "stop");
  EXPECT_EQ(stop.completion_tokens, 3);
  EXPECT_EQ(Ask({{"max_tokens", 3}, {"logit_bias", letters}, {"stop", "QQQ"}}).reason, "stop")
      << "where the cap is too";
  const Ending full = Ask({{"max_tokens", 100000}, {"ignore_eos", true}});
  EXPECT_EQ(full.reason, "length");
  EXPECT_EQ(full.prompt_tokens + full.completion_tokens, 256) << "the context";
}

TEST_P(ReplyEndTest, CountsPromptsOnceAndTokensOfAllChoices) {
  const Ending one = Ask({{"max_tokens", 6}, {"ignore_eos", true}});
  const Ending three = Ask({{"max_tokens", 6}, {"ignore_eos", true}, {"n", 3}});
  EXPECT_EQ(three.prompt_tokens, one.prompt_tokens);
  EXPECT_EQ(three.completion_tokens, 18);
}

TEST_P(ReplyEndTest, AChoiceThatStopsLeavesTheOthersAsTheyAre) {
  Json fields = {
      {"max_tokens", 40}, {"ignore_eos", true}, {"n", 3}, {"seed", 4}, {"temperature", 1}};
  const bool chat = GetParam() == kChat;
  const auto texts = [&](const Json& body) {
    std::vector<std::string> all;
    const ApiReply reply = served_.PostJson(GetParam(), Body(body));
    for (const Json& choice : reply.body["choices"]) {
      all.push_back((chat ? choice["message"]["content"] : choice["text"]).get<std::string>());
    }
    return all;
  };
  const std::vector<std::string> whole = texts(fields);
  const std::string stop =
      whole[1].substr(0, ValidUtf8Prefix(std::string_view(whole[1]).substr(0, 8)));
  ASSERT_FALSE(stop.empty());
  fields["stop"] = stop;
  const std::vector<std::string> stopped = texts(fields);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(stopped[i], whole[i].substr(0, whole[i].find(stop)));
  EXPECT_EQ(stopped[1], "");
}

TEST_P(ReplyEndTest, SaysWhatIsWrongBeforeAnyEvent) {
  const std::vector<std::pair<Json, int>> wrong = {
      {Json{{"n", 0}}, 400},
      {Json{{"model", "another"}}, 404},
      {Json{{"max_tokens", "many"}}, 400},
      {Json{{"kv_format", "int8"}, {"kv_quality", "exact"}}, 400},
  };
  for (auto [fields, status] : wrong) {
    fields["stream"] = true;
    const ApiReply reply = served_.PostJson(GetParam(), Body(fields));
    EXPECT_FALSE(reply.streamed) << fields;
    EXPECT_EQ(reply.status, status) << fields;
    EXPECT_TRUE(reply.body["error"]["message"].is_string());
  }
  const ApiReply over = served_.PostJson(
      kCompletions, Json{{"prompt", TinyPrompt(300)}, {"stream", true}, {"echo", true}});
  EXPECT_EQ(over.status, 400);
  EXPECT_FALSE(over.streamed);
}

INSTANTIATE_TEST_SUITE_P(Routes, ReplyEndTest, testing::Values(kCompletions, kChat),
                         [](const auto& route) {
                           return std::string(route.param == kChat ? "Chat" : "Completions");
                         });

}  // namespace
}  // namespace swiftkv
