// SPDX-License-Identifier: Apache-2.0
// Runs `bench serve` against our own server on a tiny model, and against servers that fail.
#include <csignal>
#include <memory>

#include "scenarios/run_scenario.h"
#include "support/fake_http_server.h"

namespace swiftkv {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::SizeIs;

class BenchServeScenario : public RunScenario {
 protected:
  void StartServer() {
    ProcessSpec spec = Spec({});
    spec.arguments = {SwiftkvProgram(), "serve",       "--port", "0",  "--json", "--linear",
                      "ggml",           "--kv-memory", "64MiB",  "-t", "1"};
    server_ = std::make_unique<RunningProcess>(spec);
    ASSERT_TRUE(server_->WaitForOutput("\n"));
    url_ = Json::parse(server_->output())["url"].get<std::string>();
  }

  ProcessOutcome Bench(const std::string& url, std::vector<std::string> arguments) const {
    ProcessSpec spec = Spec({});
    spec.arguments = {SwiftkvProgram(), "bench", "serve", url, "--ignore-eos"};
    spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
    return RunProcess(spec);
  }

  Json BenchJson(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    return JsonOf(Bench(url_, std::move(arguments)));
  }

  std::unique_ptr<RunningProcess> server_;
  std::string url_;
};

TEST_F(BenchServeScenario, CountsWhatOurServerDoes) {
  StartServer();
  const Json shared =
      BenchJson({"--clients", "4", "--requests", "8", "--prefix-tokens", "160", "--own-tokens", "8",
                 "--output-tokens", "6", "--goodput", "ttft:3600000", "--detailed"});
  EXPECT_EQ(shared["completed"], 8) << shared.dump();
  EXPECT_EQ(shared["failed"], 0);
  EXPECT_EQ(shared["num_prompts"], 8);
  EXPECT_EQ(shared["total_input_tokens"], 8 * 168);
  EXPECT_EQ(shared["total_output_tokens"], 8 * 6);
  EXPECT_EQ(shared["max_concurrency"], 4);
  EXPECT_EQ(shared["request_rate"], "inf");
  EXPECT_LE(shared["max_concurrent_requests"].get<int>(), 4);
  EXPECT_EQ(shared["request_goodput"], shared["request_throughput"]);
  EXPECT_EQ(shared["input_lens"], Json(std::vector<int>(8, 168)));
  EXPECT_EQ(shared["output_lens"], Json(std::vector<int>(8, 6)));
  EXPECT_THAT(shared["itls"], SizeIs(8));
  for (const char* key :
       {"date", "backend", "endpoint_type", "model_id", "tokenizer_id", "burstiness", "duration",
        "output_throughput", "total_token_throughput", "max_output_tokens_per_s"}) {
    EXPECT_TRUE(shared.contains(key)) << key;
  }
  for (const std::string metric : {"ttft", "tpot", "itl", "e2el"}) {
    for (const std::string statistic : {"mean", "median", "std", "p90", "p99"}) {
      EXPECT_TRUE(shared[statistic + "_" + metric + "_ms"].is_number()) << statistic << metric;
    }
  }
  const Json& own = shared["swiftkv"];
  EXPECT_EQ(own["prompt"], "ids");
  EXPECT_EQ(own["prompt_ids_from"], "tokenizer");
  EXPECT_EQ(own["exact_prompts"], true);
  EXPECT_EQ(own["output_counted_by"], "usage");
  EXPECT_GE(own["cached_tokens"].get<int>(), 7 * 160);
  // The same prompts again: all but the last block of each is found.
  const Json again = BenchJson({"--clients", "1", "--requests", "8", "--prefix-tokens", "160",
                                "--own-tokens", "8", "--output-tokens", "6"});
  EXPECT_GE(again["swiftkv"]["cached_tokens"].get<int>(), 8 * 160);
  const Json unique =
      BenchJson({"--workload", "unique", "--requests", "3", "--seed", "2", "--prefix-tokens", "30",
                 "--own-tokens", "2", "--output-tokens", "2", "--warmup", "1"});
  EXPECT_EQ(unique["total_input_tokens"], 3 * 32);
  // Less than a block of each: their first tokens may be alike by chance.
  EXPECT_LT(unique["swiftkv"]["cached_tokens"].get<int>(), 3 * 16);
  EXPECT_EQ(unique["swiftkv"]["warmups_completed"], 1);
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait().exit_status, 0);
}

TEST_F(BenchServeScenario, ChatsLeaveAndComeAtRandomAndTheServerLives) {
  StartServer();
  const Json chat = BenchJson({"--endpoint", "chat", "--workload", "multi-turn", "--turns", "2",
                               "--requests", "8", "--rate", "200", "--prefix-tokens", "40",
                               "--own-tokens", "4", "--output-tokens", "5"});
  EXPECT_EQ(chat["completed"], 8) << chat.dump();
  EXPECT_EQ(chat["total_output_tokens"], 8 * 5);
  EXPECT_EQ(chat["request_rate"], 200);
  EXPECT_EQ(chat["max_concurrency"], nullptr);
  EXPECT_EQ(chat["backend"], "openai-chat");
  EXPECT_GT(chat["swiftkv"]["cached_tokens"].get<int>(), 0);
  const Json leavers = BenchJson({"--requests", "20", "--disconnect-share", "0.5",
                                  "--output-tokens", "3", "--prefix-tokens", "16"});
  EXPECT_GT(leavers["swiftkv"]["disconnected"].get<int>(), 0) << leavers.dump();
  EXPECT_EQ(leavers["completed"].get<int>() + leavers["swiftkv"]["disconnected"].get<int>(), 20);
  const ProcessOutcome people =
      Bench(url_, {"--requests", "2", "--prefix-tokens", "16", "--output-tokens", "2"});
  EXPECT_EQ(people.exit_status, 0) << people.error;
  for (const char* word : {"requests/s", "first token", "p99", "found in the cache"}) {
    EXPECT_THAT(people.output, HasSubstr(word));
  }
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait().exit_status, 0);
}

TEST_F(BenchServeScenario, AServerThatRefusesEverythingIsOneSentence) {
  const FakeHttpServer server([](const FakeRequest&) {
    return FakeReply{.pieces = {FakeHttpReply(500, "{\"error\": {\"message\": \"not\\ntoday\"}}")}};
  });
  const ProcessOutcome refused = Bench(server.url(), {"--requests", "3", "--json"});
  ExpectOneSentence(refused, 1);
  EXPECT_THAT(refused.error, HasSubstr("all 3 requests"));
  EXPECT_THAT(refused.error, HasSubstr("http_500"));
  ExpectOneSentence(Bench("https://127.0.0.1", {}), 2);
  ExpectOneSentence(Bench("127.0.0.1:80", {}), 2);
}

TEST_F(BenchServeScenario, CtrlCPrintsWhatHasEnded) {
  const FakeHttpServer server([](const FakeRequest& request) {
    if (request.Asks("/v1/completions")) return FakeReply{.end = FakeReply::End::kHold};
    return FakeReply{.pieces = {FakeHttpReply(404, "{}")}};
  });
  ProcessSpec spec = Spec({});
  spec.arguments = {SwiftkvProgram(), "bench",     "serve", server.url(), "--duration",
                    "3600",           "--clients", "1",     "--json"};
  RunningProcess bench(spec);
  server.WaitForRequests(3);  // its model, its tokenizer, the first of the load
  bench.Signal(SIGINT);
  const ProcessOutcome outcome = bench.Wait();
  EXPECT_EQ(outcome.exit_status, 130);
  EXPECT_EQ(Json::parse(outcome.output)["swiftkv"]["interrupted"], true);
}

}  // namespace
}  // namespace swiftkv
