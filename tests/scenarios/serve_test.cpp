// SPDX-License-Identifier: Apache-2.0
// Tests the built server over raw sockets: what clients do wrong, and how it ends.
#include "scenarios/serve_scenario.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;

TEST_F(ServeScenario, RefusesMalformedRequestsAndStaysAlive) {
  const std::vector<std::string> malformed = {
      "NONSENSE\r\n\r\n",
      "GET / HTTP/9.9\r\n\r\n",
      "GET /health HTTP/1.1\r\nbad header line\r\n\r\n",
      "POST /tokenize HTTP/1.1\r\nContent-Length: minus\r\n\r\n",
      "POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 15),
  };
  for (const std::string& bytes : malformed) ExpectRefused(bytes, 400);
  ExpectRefused(HttpBytes("POST", "/v1/completions", std::string(10 << 20, '[')), 400);
  ExpectRefused(HttpBytes("POST", "/v1/completions", "{\"prompt\": \"\xC4\xE3\"}"), 400);
  ExpectRefused(HttpBytes("GET", "/\xFF\x01nowhere"), 400);
  ExpectRefused(HttpBytes("GET", "/nowhere"), 404);
  ExpectRefused(HttpBytes("DELETE", "/health"), 405);
}

TEST_F(ServeScenario, RefusesWhatIsTooLarge) {
  ExpectRefused("GET /health HTTP/1.1\r\nA: " + std::string(1 << 20, 'a') + "\r\n\r\n", 431);
  std::string many = "GET /health HTTP/1.1\r\n";
  for (int i = 0; i < 20000; ++i) many += "H" + std::to_string(i) + ": v\r\n";
  ExpectRefused(many + "\r\n", 431);
  ExpectRefused("POST /tokenize HTTP/1.1\r\nContent-Length: 9000000000\r\n\r\n", 413);
  std::string endless = "POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 40; ++i) endless += "100000\r\n" + std::string(1 << 20, 'a') + "\r\n";
  ExpectRefused(endless, 413);
}

TEST_F(ServeScenario, RefusesBeforeALongBodyWhatNeedsNone) {
  const std::string rest = " HTTP/1.1\r\nContent-Length: 30000000\r\n\r\n";
  ExpectRefused("POST /nowhere" + rest, 404);
  ExpectRefused("PUT /tokenize" + rest, 405);
  HttpSocket careful(port_);
  careful.Write(
      "POST /nowhere HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 30000000\r\n\r\n");
  EXPECT_EQ(careful.ReadReply().status, 404);
  // A short body is read, so that the connection stays.
  HttpSocket socket(port_);
  socket.Write(HttpBytes("POST", "/nowhere", "{}") + HttpBytes("GET", "/health"));
  EXPECT_EQ(socket.ReadReply().status, 404);
  EXPECT_EQ(socket.ReadReply().status, 200);
}

TEST_F(ServeScenario, AnswersPipelinedRequestsInOrder) {
  HttpSocket socket(port_);
  socket.Write(HttpBytes("GET", "/version") + HttpBytes("POST", "/v1/completions", Body(5, true)) +
               HttpBytes("POST", "/v1/completions", Body(5, false)) + HttpBytes("GET", "/nowhere") +
               HttpBytes("GET", "/health"));
  EXPECT_THAT(socket.ReadReply().body, HasSubstr("version"));
  const RawReply stream = socket.ReadReply();
  EXPECT_TRUE(stream.complete);
  EXPECT_THAT(stream.body, testing::EndsWith("data: [DONE]\n\n"));
  EXPECT_THAT(socket.ReadReply().body, HasSubstr("text_completion"));
  EXPECT_EQ(socket.ReadReply().status, 404);
  EXPECT_THAT(socket.ReadReply().body, HasSubstr("ok"));
}

TEST_F(ServeScenario, ServesOldClientsAndThoseThatWaitForAGo) {
  HttpSocket old(port_);
  const std::string body = Body(3, true);
  old.Write("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) +
            "\r\n\r\n" + body);
  EXPECT_TRUE(old.ReadUntil("data: [DONE]\n\n"));
  HttpSocket careful(port_);
  careful.Write("POST /v1/completions HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(careful.ReadReply().status, 100);
  careful.Write(body);
  EXPECT_THAT(careful.ReadReply().body, testing::EndsWith("data: [DONE]\n\n"));
}

TEST_F(ServeScenario, CancelsWhatClientsLeaveBehind) {
  ExpectEnds(SIGTERM);
  Start({"--drain-timeout", "3600"});
  for (int round = 0; round < 3; ++round) {
    for (const bool stream : {true, false}) {
      HttpSocket leaver(port_);
      leaver.Write(HttpBytes("POST", "/v1/completions", Body(100000, stream)));
      EXPECT_TRUE(!stream || leaver.ReadUntil("data: "));
      if (round == 1) {
        leaver.Reset();
      } else {
        leaver.Close();
      }
    }
    ExpectAlive();
  }
  // Nothing is under way any more, or the drain would last for an hour.
  ExpectEnds(SIGTERM);
}

TEST_F(ServeScenario, LetsRepliesUnderWayEndWhenItIsTold) {
  HttpSocket idle(port_);
  HttpSocket busy(port_);
  busy.Write(HttpBytes("POST", "/v1/completions", Body(400, true)));
  ASSERT_TRUE(busy.ReadUntil("data: "));
  server_->Signal(SIGTERM);
  EXPECT_TRUE(idle.ClosesSilently());
  EXPECT_FALSE(HttpSocket(port_).connected());
  const RawReply reply = busy.ReadReply();
  EXPECT_TRUE(reply.complete);
  EXPECT_THAT(reply.body, HasSubstr("\"finish_reason\":\"length\""));
  EXPECT_EQ(server_->Wait().exit_status, 0);
}

TEST_F(ServeScenario, CutsRepliesShortWhenItIsToldTwice) {
  HttpSocket busy(port_);
  busy.Write(HttpBytes("POST", "/v1/completions", Body(100000, true)));
  ASSERT_TRUE(busy.ReadUntil("data: "));
  server_->Signal(SIGTERM);
  server_->Signal(SIGINT);
  const RawReply reply = busy.ReadReply();
  EXPECT_TRUE(reply.complete);
  EXPECT_THAT(reply.body, HasSubstr("\"error\""));
  EXPECT_THAT(reply.body, testing::EndsWith("data: [DONE]\n\n"));
  EXPECT_EQ(server_->Wait().exit_status, 0);
}

TEST_F(ServeScenario, DropsClientsThatDripAndServesOthersMeanwhile) {
  ExpectEnds(SIGINT);
  Start({"--header-timeout", "1", "--body-timeout", "1", "--max-connections", "300"});
  std::vector<std::unique_ptr<HttpSocket>> drips;
  for (int i = 0; i < 200; ++i) {
    drips.push_back(std::make_unique<HttpSocket>(port_));
    ASSERT_TRUE(drips.back()->connected());
    drips.back()->Write(i % 2 == 0 ? "GET /heal"
                                   : "POST /tokenize HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  }
  ExpectAlive();
  for (const auto& drip : drips) EXPECT_EQ(drip->ReadReply().status, 408);
  ExpectAlive();
}

TEST_F(ServeScenario, ClosesConnectionsBeyondTheMost) {
  ExpectEnds(SIGINT);
  Start({"--max-connections", "2"});
  HttpSocket first(port_);
  HttpSocket second(port_);
  first.Write(HttpBytes("GET", "/health"));
  second.Write(HttpBytes("GET", "/health"));
  EXPECT_EQ(first.ReadReply().status, 200);
  EXPECT_EQ(second.ReadReply().status, 200);
  HttpSocket third(port_);
  EXPECT_TRUE(third.ClosesSilently());
  first.Write(HttpBytes("GET", "/health"));
  EXPECT_EQ(first.ReadReply().status, 200);
}

TEST_F(ServeScenario, SaysWhyItCannotStart) {
  ProcessSpec spec = Spec({});
  spec.arguments = {SwiftkvProgram(),     "serve", "--json", "--linear", "ggml", "--port",
                    std::to_string(port_)};
  ExpectOneSentence(RunProcess(spec), 1);
  spec.arguments = {SwiftkvProgram(), "serve", "--host", "not a host", "--json"};
  ExpectOneSentence(RunProcess(spec), 1);
  spec.arguments = {SwiftkvProgram(), "serve", "--port", "70000"};
  ExpectOneSentence(RunProcess(spec), 2);
}

}  // namespace
}  // namespace swiftkv
