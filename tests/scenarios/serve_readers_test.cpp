// SPDX-License-Identifier: Apache-2.0
// Tests the built server against clients that do not read, and bodies that take long to read.
#include "scenarios/serve_scenario.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;

// What fits into a socket of a client that does not read.
constexpr int kSmallBuffer = 4096;

// Events of a few hundred bytes each, without end.
std::string EndlessStream() {
  return Json{{"prompt", "Hello"},  {"max_tokens", 100000}, {"temperature", 0},
              {"ignore_eos", true}, {"stream", true},       {"logprobs", 10}}
      .dump();
}

TEST_F(ServeScenario, DropsClientsThatDoNotReadAndServesOthersMeanwhile) {
  ExpectEnds(SIGINT);
  Start({"--write-timeout", "1", "--drain-timeout", "3600"});
  std::vector<std::unique_ptr<HttpSocket>> unread;
  for (int i = 0; i < 8; ++i) {
    unread.push_back(std::make_unique<HttpSocket>(port_, kSmallBuffer));
    unread.back()->Write(HttpBytes("POST", "/v1/completions", EndlessStream()));
  }
  ExpectAlive();
  HttpSocket reader(port_);
  reader.Write(HttpBytes("POST", "/v1/completions", Body(300, true)));
  const RawReply reply = reader.ReadReply();
  EXPECT_TRUE(reply.complete);
  EXPECT_THAT(reply.body, HasSubstr("\"finish_reason\":\"length\""));
  ExpectAlive();
  // Nobody is left once they are dropped, or the drain would last for an hour.
  ExpectEnds(SIGTERM);
  for (const auto& socket : unread) EXPECT_FALSE(socket->ReadUntil("[DONE]"));
}

TEST_F(ServeScenario, SurvivesClientsThatResetAfterAnyNumberOfEvents) {
  for (const int events : {0, 1, 2, 5, 50}) {
    for (const int prompt : {1, 50, 3000}) {
      HttpSocket leaver(port_);
      leaver.Write(
          HttpBytes("POST", "/v1/completions",
                    Body(100000, true, std::string(static_cast<std::size_t>(prompt), 'a'))));
      EXPECT_TRUE(leaver.ReadUntil("data: ", events));
      leaver.Reset();
    }
    ExpectAlive();
  }
  AwaitKv([](const Json& kv) { return kv["running"] == 0 && kv["waiting"] == 0; });
  const Json kv = Kv();
  EXPECT_EQ(kv["bytes"]["live_private"], 0);
  EXPECT_EQ(kv["bytes"]["live_shared"], 0);
  EXPECT_EQ(kv["live_tokens"], 0);
  EXPECT_EQ(Kv()["generated_tokens"], kv["generated_tokens"]) << "nothing is computed any more";
}

TEST_F(ServeScenario, EndsInTheMiddleOfAPrompt) {
  ExpectEnds(SIGINT);
  Start({"--drain-timeout", "0"});
  std::string prompt;
  for (int i = 0; i < 10000; ++i) prompt += std::to_string(i * 7919 % 10007) + " ";
  HttpSocket asker(port_);
  asker.Write(HttpBytes("POST", "/v1/completions", Body(1, false, prompt)));
  AwaitKv([](const Json& kv) { return kv["live_tokens"] > 0; });
  ExpectEnds(SIGTERM);
  const RawReply reply = asker.ReadReply();
  EXPECT_EQ(reply.status, 503) << reply.body;
  // By the server, or by the engine where that learnt of it first.
  EXPECT_THAT(reply.body, testing::AnyOf(HasSubstr("stopping"), HasSubstr("closing")));
}

TEST_F(ServeScenario, StreamsGoOnWhileALongBodyIsRead) {
  HttpSocket stream(port_);
  stream.Write(HttpBytes("POST", "/v1/completions", Body(200, true)));
  ASSERT_TRUE(stream.ReadUntil("data: "));
  const std::string text(2 << 20, 'x');
  ExpectRefused(HttpBytes("POST", "/v1/completions", Body(1, false, text)), 400);
  HttpSocket leaver(port_);
  leaver.Write(HttpBytes("POST", "/v1/completions", Body(1, false, text)));
  leaver.Reset();
  const RawReply reply = stream.ReadReply();
  EXPECT_TRUE(reply.complete);
  EXPECT_THAT(reply.body, HasSubstr("\"finish_reason\":\"length\""));
  ExpectAlive();
}

}  // namespace
}  // namespace swiftkv
