// SPDX-License-Identifier: Apache-2.0
// Tests what `bench serve` writes to servers and what it makes of their streams.
#include "tools/bench_serve_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace swiftkv {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kTolerance = 1e-9;

ServeTurn Text(const std::string& text) {
  ServeTurn turn;
  turn.text = text;
  turn.output_tokens = 3;
  return turn;
}

TEST(BenchServeRequestTest, CompletionsCarryIdsAndAskForUsage) {
  ServeConversation conversation(/*chat=*/false);
  ServeTurn turn;
  turn.ids = {5, 6, 7};
  turn.output_tokens = 9;
  conversation.Say(turn);
  BenchServeOptions options;
  options.workload.ignore_eos = true;
  options.target.extra_body = R"({"kv_quality": "near", "temperature": 1})";
  EXPECT_EQ(Json::parse(conversation.RequestBody(options, "m")),
            Json::parse(R"({"model": "m", "prompt": [5, 6, 7], "max_tokens": 9, "temperature": 1,
                            "stream": true, "stream_options": {"include_usage": true},
                            "ignore_eos": true, "kv_quality": "near"})"));
}

TEST(BenchServeRequestTest, TurnsGrowByTheRepliesThatWereHeard) {
  BenchServeOptions options;
  ServeConversation chat(/*chat=*/true);
  ServeConversation text(/*chat=*/false);
  for (ServeConversation* conversation : {&chat, &text}) {
    conversation->Say(Text("one"));
    conversation->Hear(" two\xFF");
    conversation->Say(Text("three"));
  }
  EXPECT_EQ(Json::parse(chat.RequestBody(options, ""))["messages"], Json::parse(R"([
      {"role": "user", "content": "one"}, {"role": "assistant", "content": " two\ufffd"},
      {"role": "user", "content": "three"}])"));
  const Json body = Json::parse(text.RequestBody(options, ""));
  EXPECT_EQ(body["prompt"], "one two\xEF\xBF\xBD three");
  EXPECT_FALSE(body.contains("model"));
  EXPECT_FALSE(body.contains("ignore_eos"));
}

class ReplyTest : public testing::Test {
 protected:
  void Read(int ms, const std::string& data) { reader_.Read(data, sent_ + milliseconds(ms)); }

  ServeRecord Finish(ServedReply reply = {.status = 200}) {
    ServeRecord record;
    reader_.Finish(reply, sent_ - milliseconds(1000), /*planned_tokens=*/11, &record);
    return record;
  }

  ServeClock::time_point sent_ = ServeClock::now();
  ServeReplyReader reader_{sent_};
};

TEST_F(ReplyTest, TimesAreThoseOfEventsWithText) {
  Read(10, R"({"choices": [{"delta": {"role": "assistant", "content": ""}}]})");
  Read(20, R"({"choices": [{"delta": {"content": "a"}, "finish_reason": null}]})");
  Read(50, R"({"choices": [{"delta": {"reasoning_content": "b"}}]})");
  Read(60, R"({"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]})");
  Read(65, R"({"choices": [{"delta": {}, "finish_reason": "stop"}]})");
  Read(99, R"({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 8,
               "prompt_tokens_details": {"cached_tokens": 2}}})");
  Read(99, "[DONE]");
  const ServeRecord record = Finish();
  EXPECT_TRUE(record.completed()) << record.failure;
  EXPECT_NEAR(record.start, 1, kTolerance);
  EXPECT_NEAR(record.ttft, 0.02, kTolerance);
  EXPECT_NEAR(record.e2el, 0.065, kTolerance);
  EXPECT_THAT(record.itls, ElementsAre(DoubleNear(0.03, kTolerance), DoubleNear(0.01, kTolerance)));
  EXPECT_EQ(record.prompt_tokens, 4);
  EXPECT_EQ(record.output_tokens, 8);
  EXPECT_EQ(record.cached_tokens, 2);
  EXPECT_FALSE(record.counted_by_events);
  EXPECT_EQ(reader_.text(), "a");
}

TEST_F(ReplyTest, WithoutUsageEventsAreCounted) {
  Read(10, R"({"choices": [{"text": "a"}], "usage": null})");
  Read(20, R"({"choices": [{"text": "b", "finish_reason": "length"}], "timings": {"cache_n": 6}})");
  const ServeRecord record = Finish();
  EXPECT_TRUE(record.completed());
  EXPECT_EQ(record.output_tokens, 2);
  EXPECT_TRUE(record.counted_by_events);
  EXPECT_EQ(record.prompt_tokens, 11);
  EXPECT_EQ(record.cached_tokens, 6);
}

TEST_F(ReplyTest, AReplyOfInvisibleTokensStillHasTimes) {
  Read(10, R"({"choices": [{"text": ""}]})");
  Read(30, R"({"choices": [{"text": "", "finish_reason": "length"}]})");
  const ServeRecord record = Finish();
  EXPECT_TRUE(record.completed());
  EXPECT_NEAR(record.ttft, 0.01, kTolerance);
  EXPECT_NEAR(record.e2el, 0.03, kTolerance);
  EXPECT_THAT(record.itls, ElementsAre(DoubleNear(0.02, kTolerance)));
}

TEST_F(ReplyTest, FailuresHaveKindsAndWords) {
  struct Case {
    std::vector<const char*> events;
    ServedReply reply;
    const char* kind;
    const char* says;
  };
  const char* const text = R"({"choices": [{"text": "a"}]})";
  const std::vector<Case> cases = {
      {{}, {.end = HttpEnd::kRefused, .detail = "no way"}, "not_connected", "no way"},
      {{text}, {.end = HttpEnd::kClosed, .status = 200, .detail = "gone"}, "closed_early", "gone"},
      {{text}, {.end = HttpEnd::kTimedOut, .status = 200, .detail = "late"}, "timeout", "late"},
      {{}, {.end = HttpEnd::kMalformed, .detail = "bad"}, "malformed", "bad"},
      {{}, {.status = 429, .body = R"({"error": {"message": "full"}})"}, "http_429", "full"},
      {{}, {.status = 400, .body = R"({"object": "error", "message": "no"})"}, "http_400", "no"},
      {{}, {.status = 500, .body = "<html>\x1b"}, "http_500", "<html>"},
      {{}, {.status = 200, .body = "hello"}, "empty_reply", "hello"},
      {{text}, {.status = 200}, "unfinished", "no text"},
      {{text, "{\"cho"}, {.status = 200}, "malformed", "no text"},
      {{"[]"}, {.status = 200}, "malformed", "no text"},
      {{text, R"({"error": {"message": "broke"}})", "[DONE]"},
       {.status = 200},
       "error_event",
       "broke"}};
  for (const Case& each : cases) {
    reader_ = ServeReplyReader(sent_);
    for (const char* const event : each.events) Read(5, event);
    const ServeRecord record = Finish(each.reply);
    EXPECT_FALSE(record.completed());
    EXPECT_EQ(record.failure, each.kind);
    EXPECT_THAT(record.detail, HasSubstr(each.says));
  }
}

TEST_F(ReplyTest, EventsOfAnyShapeDoNoHarm) {
  for (const char* const event :
       {"{}", "null", "7", "\"x\"", R"({"choices": 3})", R"({"choices": [null, 3, [], "x"]})",
        R"({"choices": [{"text": 3, "delta": 4}]})", R"({"choices": [{"delta": {"content": {}}}]})",
        R"({"usage": 3, "timings": [], "error": null})",
        R"({"usage": {"prompt_tokens": "many", "prompt_tokens_details": 1}})"}) {
    Read(5, event);
  }
  const ServeRecord record = Finish();
  EXPECT_EQ(record.failure, "malformed");
  EXPECT_EQ(record.prompt_tokens, 11);
}

TEST_F(ReplyTest, WhatIsCutOffBehindTheEndIsNoFailure) {
  Read(5, R"({"choices": [{"text": "a"}]})");
  Read(6, "[DONE]");
  EXPECT_TRUE(Finish({.end = HttpEnd::kClosed, .status = 200}).completed());
}

}  // namespace
}  // namespace swiftkv
