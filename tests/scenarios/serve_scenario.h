// SPDX-License-Identifier: Apache-2.0
// Starts the built server on a tiny model and asks it over raw sockets.
//
// After each fault the server must be alive: the same process, healthy, and with the same answer to
// the same question.
#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "scenarios/run_scenario.h"
#include "support/http_socket.h"

namespace swiftkv {

using Json = nlohmann::json;

class ServeScenario : public RunScenario {
 protected:
  void SetUp() override {
    RunScenario::SetUp();
    Start({});
  }

  void Start(std::vector<std::string> arguments) {
    ProcessSpec spec = Spec({});
    spec.arguments = {SwiftkvProgram(), "serve", "--port",      "0",    "--json",
                      "--linear",       "ggml",  "--kv-memory", "64MiB"};
    spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
    server_ = std::make_unique<RunningProcess>(spec);
    ASSERT_TRUE(server_->WaitForOutput("\n"));
    const Json told = Json::parse(server_->output(), nullptr, false);
    ASSERT_TRUE(told.is_object()) << server_->output();
    port_ = told["port"].get<int>();
    probe_ = Probe();
    ASSERT_THAT(probe_, testing::Not(testing::IsEmpty()));
  }

  static std::string Body(int max_tokens, bool stream, const std::string& prompt = "Hello") {
    return Json{{"prompt", prompt},
                {"max_tokens", max_tokens},
                {"temperature", 0},
                {"ignore_eos", true},
                {"stream", stream}}
        .dump();
  }

  std::string Probe() const {
    const RawReply reply = AskOnce(port_, HttpBytes("POST", "/v1/completions", Body(8, false)));
    EXPECT_EQ(reply.status, 200) << reply.body;
    const Json body = Json::parse(reply.body, nullptr, false);
    return body.is_object() ? body["choices"][0]["text"].get<std::string>() : "";
  }

  void ExpectAlive() const {
    const RawReply health = AskOnce(port_, HttpBytes("GET", "/health"));
    EXPECT_EQ(health.status, 200);
    EXPECT_EQ(Probe(), probe_);
  }

  Json Kv() const {
    const Json told = Json::parse(AskOnce(port_, HttpBytes("GET", "/kv")).body, nullptr, false);
    EXPECT_TRUE(told.is_object());
    return told.is_object() ? told : Json::object();
  }

  // Asks for /kv until it fulfils a condition; fails the test where it never does.
  void AwaitKv(const std::function<bool(const Json&)>& condition) const {
    HttpSocket socket(port_);
    for (int i = 0; i < 1000000; ++i) {
      socket.Write(HttpBytes("GET", "/kv"));
      const Json told = Json::parse(socket.ReadReply().body, nullptr, false);
      ASSERT_TRUE(told.is_object());
      if (condition(told)) return;
    }
    FAIL() << Kv();
  }

  // Expects a whole reply with an error object.
  void ExpectRefused(const std::string& bytes, int status) const {
    const RawReply reply = AskOnce(port_, bytes);
    EXPECT_EQ(reply.status, status) << bytes.substr(0, 60);
    const Json body = Json::parse(reply.body, nullptr, false);
    ASSERT_TRUE(body.is_object()) << reply.body;
    EXPECT_TRUE(body["error"]["message"].is_string());
    ExpectAlive();
  }

  void ExpectEnds(int signal) {
    server_->Signal(signal);
    const ProcessOutcome outcome = server_->Wait();
    EXPECT_EQ(outcome.signal, 0);
    EXPECT_EQ(outcome.exit_status, 0) << outcome.error;
  }

  std::unique_ptr<RunningProcess> server_;
  int port_ = 0;
  std::string probe_;
};

}  // namespace swiftkv
