// SPDX-License-Identifier: Apache-2.0
// Tests the HTTP client of `bench serve` against a server that answers anything.
#include "tools/bench_serve_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "support/fake_http_server.h"

namespace swiftkv {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using End = FakeReply::End;

std::unique_ptr<ServeClient> Open(const FakeHttpServer& server, const std::string& key = "") {
  return ServeClient::Open(ParseServeUrl(server.url()).value(), key).value();
}

struct Heard {
  ServedReply reply;
  std::vector<std::string> events;
};

Heard Ask(ServeClient* client, HttpCall call = {}) {
  Heard heard;
  call.path = "/x";
  call.on_event = [&heard](const std::string& data, ServeClock::time_point) {
    heard.events.push_back(data);
  };
  heard.reply = client->Ask(std::move(call));
  return heard;
}

TEST(BenchServeClientTest, EventsComeOneByOneHoweverTheyWereSent) {
  const std::string stream = FakeCompletion({"a", "b"});
  FakeHttpServer server([&](const FakeRequest& request) {
    FakeReply reply;
    const std::size_t cut = 1 + static_cast<std::size_t>(request.number) * 7 % stream.size();
    reply.pieces = {stream.substr(0, cut), stream.substr(cut)};
    return reply;
  });
  const auto client = Open(server);
  for (std::size_t i = 0; i < 80; ++i) {
    const Heard heard = Ask(client.get());
    EXPECT_EQ(heard.reply.end, HttpEnd::kComplete);
    EXPECT_EQ(heard.reply.status, 200);
    ASSERT_EQ(heard.events.size(), 5U);
    EXPECT_THAT(heard.events[1], HasSubstr("\"b\""));
    EXPECT_EQ(heard.events[4], "[DONE]");
  }
  EXPECT_EQ(server.connections(), 1);
}

TEST(BenchServeClientTest, RequestsCarryTheirBodyAndTheKey) {
  FakeHttpServer server([](const FakeRequest& request) {
    return FakeReply{.pieces = {FakeHttpReply(200, request.head + request.body)}};
  });
  const ServeAddress address = ParseServeUrl(server.url() + "/base/v1").value();
  const auto client = ServeClient::Open(address, "secret").value();
  HttpCall call;
  call.path = "/v1/y";
  call.body = "{\"a\": 1}";
  const std::string told = client->Ask(call).body;
  EXPECT_THAT(told, testing::StartsWith("POST /base/v1/y HTTP/1.1\r\n"));
  EXPECT_THAT(told, HasSubstr("Authorization: Bearer secret\r\n"));
  EXPECT_THAT(told, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(told, testing::EndsWith("\r\n\r\n{\"a\": 1}"));
  call = {.post = false, .path = "/z"};
  EXPECT_THAT(client->Ask(call).body, testing::StartsWith("GET /base/z HTTP/1.1\r\n"));
}

TEST(BenchServeClientTest, EveryEndIsToldApart) {
  struct Case {
    FakeReply reply;
    HttpEnd end;
    int status;
  };
  const std::string event = FakeStreamHead() + FakeEvent("{}");
  const std::vector<Case> cases = {
      {{.pieces = {}, .end = End::kClose}, HttpEnd::kClosed, 0},
      {{.pieces = {}, .end = End::kReset}, HttpEnd::kClosed, 0},
      {{.pieces = {"HTTP/1.1 200"}, .end = End::kClose}, HttpEnd::kClosed, 0},
      {{.pieces = {"SSH-2.0-x\r\n\r\n"}, .end = End::kHold}, HttpEnd::kMalformed, 0},
      {{.pieces = {FakeStreamHead(), "zz\r\n"}, .end = End::kHold}, HttpEnd::kMalformed, 200},
      {{.pieces = {event}, .end = End::kClose}, HttpEnd::kClosed, 200},
      {{.pieces = {event}, .end = End::kReset}, HttpEnd::kClosed, 200},
      {{.pieces = {event}, .end = End::kHold}, HttpEnd::kTimedOut, 200},
      {{.pieces = {}, .end = End::kHold}, HttpEnd::kTimedOut, 0},
      {{.pieces = {FakeHttpReply(500, "oh")}, .end = End::kKeep}, HttpEnd::kComplete, 500},
      // Without a length a reply lasts until the connection ends.
      {{.pieces = {"HTTP/1.0 200 OK\r\n\r\ndata: {}\n\n"}, .end = End::kClose},
       HttpEnd::kComplete,
       200}};
  FakeHttpServer server([&](const FakeRequest& request) {
    return cases[static_cast<std::size_t>(request.number)].reply;
  });
  for (const Case& each : cases) {
    SCOPED_TRACE(&each - cases.data());
    HttpCall call;
    if (each.end == HttpEnd::kTimedOut) call.timeout = std::chrono::milliseconds(100);
    const auto client = Open(server);
    const Heard heard = Ask(client.get(), call);
    EXPECT_EQ(heard.reply.end, each.end) << heard.reply.detail;
    if (each.end != HttpEnd::kTimedOut) {
      EXPECT_EQ(heard.reply.status, each.status);
    }
    EXPECT_EQ(heard.reply.detail.empty(), each.end == HttpEnd::kComplete);
  }
}

TEST(BenchServeClientTest, NobodyListeningIsARefusal) {
  std::string url;
  {
    const FakeHttpServer gone([](const FakeRequest&) { return FakeReply{}; });
    url = gone.url();
  }
  const auto client = ServeClient::Open(ParseServeUrl(url).value(), "").value();
  const Heard heard = Ask(client.get());
  EXPECT_EQ(heard.reply.end, HttpEnd::kRefused);
  EXPECT_FALSE(heard.reply.detail.empty());
}

TEST(BenchServeClientTest, AConnectionThatTheServerClosedMeanwhileIsReplaced) {
  FakeHttpServer server([](const FakeRequest&) {
    return FakeReply{.pieces = {FakeHttpReply(200, "x")}, .end = End::kClose};
  });
  const auto client = Open(server);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Ask(client.get()).reply.end, HttpEnd::kComplete);
  EXPECT_EQ(server.requests(), 5);
  EXPECT_EQ(server.connections(), 5);
}

TEST(BenchServeClientTest, CallsLeaveAfterSoManyEvents) {
  FakeHttpServer server([](const FakeRequest&) {
    return FakeReply{.pieces = {FakeStreamHead(), FakeEvent("1"), FakeEvent("2"), FakeEvent("3")},
                     .end = End::kHold};
  });
  const auto client = Open(server);
  for (int events = 0; events < 3; ++events) {
    const Heard heard = Ask(client.get(), {.drop_after_events = events});
    EXPECT_EQ(heard.reply.end, HttpEnd::kDropped);
    EXPECT_EQ(heard.events.size(), static_cast<std::size_t>(events));
  }
}

TEST(BenchServeClientTest, RetryAfterIsReadWhereItIsSeconds) {
  const std::vector<std::string> headers = {"Retry-After: 7\r\n", "", "Retry-After: soon\r\n"};
  FakeHttpServer server([&](const FakeRequest& request) {
    return FakeReply{
        .pieces = {FakeHttpReply(429, "", headers[static_cast<std::size_t>(request.number)])}};
  });
  const auto client = Open(server);
  EXPECT_EQ(Ask(client.get()).reply.retry_after_seconds, 7);
  EXPECT_LT(Ask(client.get()).reply.retry_after_seconds, 0);
  EXPECT_LT(Ask(client.get()).reply.retry_after_seconds, 0);
}

TEST(BenchServeClientTest, StoppingEndsCallsThatWaitAndThoseThatFollow) {
  FakeHttpServer server([](const FakeRequest&) { return FakeReply{.end = End::kHold}; });
  const auto client = Open(server);
  std::vector<HttpEnd> ends;
  const auto note = [&](const ServedReply& reply) { ends.push_back(reply.end); };
  for (int i = 0; i < 3; ++i) client->Send({.path = "/x"}, note);
  client->At(ServeClock::now() + std::chrono::hours(1), [] { FAIL(); });
  client->Run([&] { client->Stop(); });
  EXPECT_THAT(ends, ElementsAre(HttpEnd::kDropped, HttpEnd::kDropped, HttpEnd::kDropped));
  client->Send({.path = "/x"}, note);
  client->Run();
  EXPECT_EQ(ends.back(), HttpEnd::kDropped);
}

TEST(BenchServeClientTest, BodiesAreKeptUpToABound) {
  FakeHttpServer server([](const FakeRequest&) {
    return FakeReply{.pieces = {FakeHttpReply(500, std::string(200000, 'x'))}};
  });
  const auto client = Open(server);
  const Heard heard = Ask(client.get());
  EXPECT_EQ(heard.reply.end, HttpEnd::kComplete);
  EXPECT_EQ(heard.reply.body, std::string(65536, 'x'));
  EXPECT_THAT(heard.events, IsEmpty());
}

}  // namespace
}  // namespace swiftkv
