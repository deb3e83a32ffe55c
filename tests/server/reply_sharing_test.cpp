// SPDX-License-Identifier: Apache-2.0
// Tests that replies through the API depend on nobody else's, and that chats find their history.
#include "server/served_tiny_model.h"

namespace swiftkv {
namespace {

constexpr const char* kCompletions = "/v1/completions";

std::string TextOf(ServedTinyModel* served, const Json& body) {
  const ApiReply reply = served->PostJson(kCompletions, body);
  EXPECT_EQ(reply.status, 200) << reply.body;
  return reply.body["choices"][0]["text"].get<std::string>();
}

Json Greedy(const std::vector<TokenId>& prompt, int max_tokens) {
  return {{"prompt", prompt}, {"max_tokens", max_tokens}, {"temperature", 0}, {"ignore_eos", true}};
}

TEST(ReplySharingTest, AnswersAreAboutTheirOwnPromptWhateverCameBefore) {
  const TinySessionOptions options = {.cache_bytes = 512 << 10};
  std::vector<std::string> alone;
  for (int i = 0; i < 3; ++i) {
    ServedTinyModel fresh({}, {}, options);
    alone.push_back(TextOf(&fresh, Greedy(TinyPrompt(i == 1 ? 180 : 20, i), 12)));
  }
  ServedTinyModel served({}, {}, options);
  for (int round = 0; round < 12; ++round) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(TextOf(&served, Greedy(TinyPrompt(i == 1 ? 180 : 20, i), 12)),
                alone[static_cast<std::size_t>(i)]);
      TextOf(&served, Greedy(TinyPrompt(50, 100 * round + i), 3));
    }
  }
}

TEST(ReplySharingTest, BadFieldsBesideThemLeaveRepliesAsTheyAre) {
  ServedTinyModel served;
  const Json body = Greedy(TinyPrompt(30), 20);
  const std::string alone = TextOf(&served, body);
  for (const char* bias : {R"({"-1": 1})", R"({"99999": 1})", R"({"abc": 1})", R"({"1": 1e9})"}) {
    Json bad = body;
    bad["logit_bias"] = Json::parse(bias);
    EXPECT_EQ(served.PostJson(kCompletions, bad).status, 400);
    EXPECT_EQ(TextOf(&served, body), alone);
  }
}

TEST(ReplySharingTest, EachTurnOfAChatFindsTheTurnsBefore) {
  ServedTinyModel served;
  Json messages = Json::array();
  int cached_before = 0;
  for (int turn = 0; turn < 4; ++turn) {
    messages.push_back({{"role", "user"}, {"content", "Turn number " + std::to_string(turn)}});
    const ApiReply reply =
        served.PostJson("/v1/chat/completions",
                        Json{{"messages", messages}, {"max_tokens", 8}, {"temperature", 0}});
    ASSERT_EQ(reply.status, 200) << reply.body;
    const Json& usage = reply.body["usage"];
    const int cached = usage["prompt_tokens_details"]["cached_tokens"].get<int>();
    EXPECT_GE(cached, cached_before);
    EXPECT_EQ(cached > 0, turn > 0);
    cached_before = cached;
    messages.push_back(reply.body["choices"][0]["message"]);
  }
}

}  // namespace
}  // namespace swiftkv
