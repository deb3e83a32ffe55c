// SPDX-License-Identifier: Apache-2.0
// Tests whole loads against a server that answers anything.
#include "tools/bench_serve_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "support/fake_http_server.h"

namespace swiftkv {
namespace {

using Json = nlohmann::json;
using testing::SizeIs;
using End = FakeReply::End;

BenchServeOptions Options(const FakeHttpServer& server) {
  BenchServeOptions options;
  options.target.url = server.url();
  options.workload.prefix_tokens = 20;
  options.workload.own_tokens = 4;
  options.workload.output_tokens = 3;
  options.load.requests = 12;
  options.load.clients = 3;
  return options;
}

ServeLoadResult Load(const BenchServeOptions& options) {
  return RunServeLoad(options, [](double, int, int, int) { return true; }).value();
}

ServeFigures FiguresOf(const ServeLoadResult& result) {
  return SumUp(result.records, result.duration, {});
}

// Answers what is asked before the load; nothing else.
std::optional<FakeReply> AnswerQuestions(const FakeRequest& request) {
  if (request.Asks("/v1/models")) {
    return FakeReply{.pieces = {FakeHttpReply(200, R"({"data": [{"id": "fake"}]})")}};
  }
  if (request.Asks("/tokenize")) return FakeReply{.pieces = {FakeHttpReply(404, "{}")}};
  return std::nullopt;
}

TEST(BenchServeRunTest, CountsWhatTheServerTells) {
  FakeHttpServer server([](const FakeRequest& request) {
    if (const auto told = AnswerQuestions(request)) return *told;
    const Json body = Json::parse(request.body);
    EXPECT_EQ(body["model"], "fake");
    EXPECT_THAT(body["prompt"], SizeIs(24));
    EXPECT_EQ(body["max_tokens"], 3);
    return FakeReply{.pieces = {FakeCompletion({"a", "b", "c"})}};
  });
  BenchServeOptions options = Options(server);
  options.load.warmup = 2;
  const ServeLoadResult result = Load(options);
  const ServeFigures figures = FiguresOf(result);
  EXPECT_EQ(result.model, "fake");
  EXPECT_TRUE(result.sent_ids);
  EXPECT_FALSE(result.told_ids);
  EXPECT_TRUE(result.exact_prompts);
  EXPECT_EQ(result.warmups_completed, 2);
  EXPECT_EQ(figures.completed, 12);
  EXPECT_EQ(figures.input_tokens, 12 * 7);
  EXPECT_EQ(figures.output_tokens, 12 * 3);
  EXPECT_EQ(figures.cached_tokens, 12 * 3);
  EXPECT_EQ(figures.counted_by_events, 0);
  EXPECT_LE(figures.peak_requests, 3);
  EXPECT_GT(result.duration, 0);
  EXPECT_EQ(server.requests(), 2 + 14);
}

TEST(BenchServeRunTest, FailuresOfEveryKindAreCountedAndEndNothing) {
  std::atomic<int> asked = 0;
  FakeHttpServer server([&](const FakeRequest& request) {
    if (const auto told = AnswerQuestions(request)) return *told;
    switch (asked++ % 6) {
      case 0:
        return FakeReply{.pieces = {FakeStreamHead(), FakeEvent("{\"choices\": [")},
                         .end = End::kClose};
      case 1:
        return FakeReply{.pieces = {"garbage\r\n\r\n"}, .end = End::kClose};
      case 2:
        return FakeReply{.pieces = {FakeHttpReply(500, "{\"error\": {\"message\": \"no\"}}")}};
      case 3:
        return FakeReply{.pieces = {FakeHttpReply(429, "{}", "Retry-After: 0\r\n")}};
      case 4:
        return FakeReply{.pieces = {FakeHttpReply(200, "{\"choices\": []}")}};
      default:
        return FakeReply{.pieces = {FakeCompletion({"a"}, /*tells_usage=*/false)}};
    }
  });
  BenchServeOptions options = Options(server);
  options.load.clients = 12;
  const ServeFigures figures = FiguresOf(Load(options));
  EXPECT_EQ(figures.completed, 2);
  EXPECT_EQ(figures.failed, 10);
  EXPECT_EQ(figures.counted_by_events, 2);
  for (const char* kind : {"closed_early", "malformed", "http_500", "http_429", "empty_reply"}) {
    EXPECT_EQ(figures.failures.at(kind), 2) << kind;
  }
}

TEST(BenchServeRunTest, RefusedRequestsAreSentAgainWhereAsked) {
  std::atomic<int> asked = 0;
  FakeHttpServer server([&](const FakeRequest& request) {
    if (const auto told = AnswerQuestions(request)) return *told;
    const bool refused = asked++ % 2 == 0;
    return FakeReply{.pieces = {refused ? FakeHttpReply(429, "{}", "Retry-After: 0\r\n")
                                        : FakeCompletion({"a"})}};
  });
  BenchServeOptions options = Options(server);
  options.load.clients = 1;
  options.target.retries = 1;
  const ServeFigures figures = FiguresOf(Load(options));
  EXPECT_EQ(figures.completed, 12);
  EXPECT_EQ(figures.failed, 0);
  EXPECT_EQ(figures.retries, 12);
}

TEST(BenchServeRunTest, LeavingOnPurposeIsNoFailure) {
  FakeHttpServer server([](const FakeRequest& request) {
    if (const auto told = AnswerQuestions(request)) return *told;
    return FakeReply{.pieces = {FakeStreamHead(), FakeEvent("{}"), FakeEvent("{}")},
                     .end = End::kHold};
  });
  BenchServeOptions options = Options(server);
  options.load.disconnect_share = 1;
  const ServeFigures figures = FiguresOf(Load(options));
  EXPECT_EQ(figures.disconnected, 12);
  EXPECT_EQ(figures.failed, 0);
  EXPECT_EQ(figures.completed, 0);
}

TEST(BenchServeRunTest, ArrivalsComeByRateAndWaitForTheBound) {
  FakeHttpServer server([](const FakeRequest& request) {
    if (const auto told = AnswerQuestions(request)) return *told;
    return FakeReply{.pieces = {FakeCompletion({"a"})}};
  });
  BenchServeOptions options = Options(server);
  options.load.rate = 1000;
  options.load.burstiness = 0.5;
  for (const int clients : {0, 1}) {
    options.load.clients = clients;
    const ServeFigures figures = FiguresOf(Load(options));
    EXPECT_EQ(figures.completed, 12);
    EXPECT_LE(figures.peak_requests, clients == 1 ? 1 : 12);
  }
}

TEST(BenchServeRunTest, ConversationsCarryWhatTheServerSaid) {
  std::mutex mutex;
  std::multiset<std::size_t> lengths;
  FakeHttpServer server([&](const FakeRequest& request) {
    if (const auto told = AnswerQuestions(request)) return *told;
    const Json messages = Json::parse(request.body)["messages"];
    for (std::size_t i = 1; i < messages.size(); i += 2) EXPECT_EQ(messages[i]["content"], "ab");
    const std::lock_guard lock(mutex);
    lengths.insert(messages.size());
    return FakeReply{.pieces = {FakeCompletion({"a", "b"})}};
  });
  BenchServeOptions options = Options(server);
  options.target.endpoint = "chat";
  options.workload.workload = "multi-turn";
  options.workload.turns = 3;
  options.load.requests = 7;  // rounded up to whole conversations
  const ServeLoadResult result = Load(options);
  EXPECT_EQ(FiguresOf(result).completed, 9);
  EXPECT_FALSE(result.exact_prompts);
  for (const std::size_t length : {1U, 3U, 5U}) EXPECT_EQ(lengths.count(length), 3U);
}

TEST(BenchServeRunTest, AnInterruptEndsTheLoadWithWhatItHas) {
  FakeHttpServer server([](const FakeRequest& request) {
    if (const auto told = AnswerQuestions(request)) return *told;
    return FakeReply{.end = End::kHold};
  });
  BenchServeOptions options = Options(server);
  options.load.requests = 0;
  options.load.duration_seconds = 3600;
  const auto progress = [](double, int, int under_way, int) { return under_way == 0; };
  const ServeLoadResult result = RunServeLoad(options, progress).value();
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(FiguresOf(result).completed, 0);
  EXPECT_EQ(FiguresOf(result).failed, 0);
}

TEST(BenchServeRunTest, AHostWithoutAnAddressIsAnError) {
  BenchServeOptions options;
  options.target.url = "http://name.invalid:1";
  const auto result = RunServeLoad(options, [](double, int, int, int) { return true; });
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace swiftkv
