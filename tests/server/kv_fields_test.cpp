// SPDX-License-Identifier: Apache-2.0
// Tests the fields that say what a request forgets, the route that compresses prefixes, and what is
// told of both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/served_tiny_model.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;

constexpr TinySessionOptions kOptions = {.context = 1024, .chunk = 64};
constexpr EngineLimits kLimits = {.ceiling = Quality::kAny};
constexpr const char* kPolicy = "keydiff:recent=16,min_tokens=64";

Json Request(int prompt_tokens) {
  return {{"prompt", TinyPrompt(prompt_tokens)},
          {"max_tokens", 4},
          {"temperature", 0},
          {"ignore_eos", true}};
}

Json Forgets(Json request) {
  request["kv_policy"] = kPolicy;
  request["kv_ratio"] = 0.5;
  return request;
}

TEST(KvFieldsTest, AReplyTellsWhatItsCacheKept) {
  ServedTinyModel served({}, kLimits, kOptions);
  const ApiReply reply = served.PostJson("/v1/completions", Forgets(Request(400)));
  ASSERT_EQ(reply.status, 200) << reply.body.dump();
  const Json& kv = reply.body["swiftkv"]["kv"];
  EXPECT_EQ(kv["policy"], "keydiff");
  EXPECT_EQ(kv["compactions"], 1);
  EXPECT_EQ(kv["logical_tokens"], 403);
  EXPECT_LT(kv["kept_tokens"], 260);
  EXPECT_GT(kv["bytes"], 0);
  const ApiReply plain = served.PostJson("/v1/completions", Request(100));
  EXPECT_EQ(plain.body["swiftkv"]["kv"]["policy"], "none");
  EXPECT_EQ(plain.body["swiftkv"]["kv"]["kept_tokens"], 103);
}

TEST(KvFieldsTest, ABudgetIsANumberOrAText) {
  ServedTinyModel served({}, kLimits, kOptions);
  for (const Json& budget : {Json(256), Json("256"), Json("256tokens")}) {
    Json request = Request(400);
    request["kv_policy"] = "keydiff";
    request["kv_budget"] = budget;
    const ApiReply reply = served.PostJson("/v1/completions", request);
    ASSERT_EQ(reply.status, 200) << reply.body.dump();
    EXPECT_LE(reply.body["swiftkv"]["kv"]["kept_tokens"], 256);
  }
}

TEST(KvFieldsTest, PartOfWhatIsKeptIsStoredAsAsked) {
  ServedTinyModel served({}, kLimits, kOptions);
  Json request = Forgets(Request(400));
  request["kv_kept_as"] = "int8=0.5";
  const ApiReply reply = served.PostJson("/v1/completions", request);
  ASSERT_EQ(reply.status, 200) << reply.body.dump();
  EXPECT_EQ(reply.body["swiftkv"]["kv"]["kept_as"], "int8=0.5");
  EXPECT_EQ(reply.body["swiftkv"]["kv"]["query_statistics"], nullptr);
  EXPECT_GT(reply.body["swiftkv"]["kv"]["kept_tokens"], 260);
}

TEST(KvFieldsTest, NonsenseIsRefusedBeforeAnythingIsComputed) {
  ServedTinyModel served({}, kLimits, kOptions);
  const auto refusal = [&served](const Json& fields) {
    Json request = Request(100);
    request.update(fields);
    const ApiReply reply = served.PostJson("/v1/completions", request);
    EXPECT_EQ(reply.status, 400) << fields.dump();
    return reply.message();
  };
  EXPECT_THAT(refusal({{"kv_policy", "oldest"}, {"kv_ratio", 0.5}}), HasSubstr("sink_recent"));
  EXPECT_THAT(refusal({{"kv_policy", kPolicy}, {"kv_ratio", 1}}), HasSubstr("below 1"));
  EXPECT_THAT(refusal({{"kv_policy", kPolicy}, {"kv_ratio", "0.5"}}), HasSubstr("kv_ratio"));
  EXPECT_THAT(refusal({{"kv_policy", kPolicy}, {"kv_budget", -32}}), HasSubstr("kv_budget"));
  EXPECT_THAT(refusal({{"kv_policy", kPolicy}, {"kv_budget", 0}}), HasSubstr("at least"));
  EXPECT_THAT(refusal({{"kv_policy", kPolicy}, {"kv_budget", ""}}), HasSubstr("kv_budget"));
  EXPECT_THAT(refusal({{"kv_policy", kPolicy}, {"kv_budget", 512}, {"kv_ratio", 0.5}}),
              HasSubstr("not both"));
  EXPECT_THAT(refusal({{"kv_policy", kPolicy}, {"kv_ratio", 0.5}, {"kv_kept_as", "int8=2"}}),
              HasSubstr("at most 1, not: int8=2"));
  EXPECT_THAT(refusal({{"kv_policy", kPolicy}, {"kv_ratio", 0.5}, {"kv_kept_as", 8}}),
              HasSubstr("kv_kept_as"));
  EXPECT_THAT(refusal({{"kv_policy", kPolicy}, {"kv_ratio", 0.5}, {"kv_kept_as", "f32=0.5"}}),
              HasSubstr("smaller format"));
  EXPECT_THAT(refusal({{"kv_kept_as", "int8=0.5"}}), HasSubstr("needs a policy"));
  EXPECT_THAT(refusal({{"kv_policy", kPolicy}}), HasSubstr("ratio"));
  EXPECT_THAT(refusal({{"kv_ratio", 0.5}}), HasSubstr("needs a policy"));
  EXPECT_THAT(refusal({{"kv_policy", kPolicy}, {"kv_ratio", 0.5}, {"kv_quality", "exact"}}),
              HasSubstr("quality any"));
  EXPECT_EQ(served.tiny().engine->Snapshot().steps, 0U);
}

TEST(KvFieldsTest, APrefixIsCompressedOnceForAll) {
  ServedTinyModel served({}, kLimits, kOptions);
  Json compress = Forgets({{"prompt", TinyPrompt(320)}});
  compress["ttl"] = 60;
  const ApiReply made = served.PostJson("/v1/kv/compress", compress);
  ASSERT_EQ(made.status, 200) << made.body.dump();
  EXPECT_EQ(made.body["object"], "kv.compressed_prefix");
  EXPECT_EQ(made.body["usage"]["prompt_tokens"], 320);
  EXPECT_EQ(made.body["swiftkv"]["kv"]["compactions"], 1);

  Json request = Forgets(Request(0));
  request["prompt"] = Join(TinyPrompt(320), TinyPrompt(9, 4));
  const ApiReply user = served.PostJson("/v1/completions", request);
  ASSERT_EQ(user.status, 200) << user.body.dump();
  EXPECT_EQ(user.body["swiftkv"]["kv"]["compressed_tokens"], 320) << user.body.dump();
  EXPECT_GE(user.body["usage"]["prompt_tokens_details"]["cached_tokens"], 320);

  HttpRequest operators{.method = "GET", .path = "/kv", .authorization = "", .body = ""};
  operators.from_loopback = true;
  Json held;
  do {  // it is told at the end of a step, after the reply
    held = served.Call(operators).body["compressed"];
  } while (held["adoptions"] != 1);
  EXPECT_EQ(held["segments"], 1);
  EXPECT_GT(held["bytes"], 0);
  ASSERT_EQ(held["list"].size(), 1U);
  const Json& segment = held["list"][0];
  EXPECT_EQ(segment["policy"], "keydiff");
  EXPECT_EQ(segment["ratio"], 0.5);
  EXPECT_EQ(segment["budget_tokens"], nullptr);
  EXPECT_EQ(segment["kept_as"], "same");
  EXPECT_EQ(segment["asked_for"], true);
  EXPECT_EQ(segment["findable"], true);
  EXPECT_EQ(segment["tokens"], 320);
  EXPECT_LT(segment["kept_tokens"], 180);
  EXPECT_EQ(segment["bytes"], held["bytes"]);
  EXPECT_EQ(segment["hits"], 1);
}

TEST(KvFieldsTest, AChatsBeginningServesLaterTurns) {
  ServedTinyModel served({}, kLimits, kOptions);
  const Json system = {{"role", "system"}, {"content", std::string(600, 'x')}};
  const ApiReply made = served.PostJson("/v1/kv/compress", Forgets({{"messages", {system}}}));
  ASSERT_EQ(made.status, 200) << made.body.dump();
  Json chat = Forgets({{"max_tokens", 4}});
  chat["messages"] = {system, {{"role", "user"}, {"content", "hello"}}};
  const ApiReply reply = served.PostJson("/v1/chat/completions", chat);
  ASSERT_EQ(reply.status, 200) << reply.body.dump();
  EXPECT_EQ(reply.body["swiftkv"]["kv"]["compressed_tokens"], made.body["usage"]["prompt_tokens"]);
}

TEST(KvFieldsTest, WhatIsNoPrefixIsRefused) {
  ServedTinyModel served({}, kLimits, kOptions);
  const auto refusal = [&served](Json fields) {
    const ApiReply reply = served.PostJson("/v1/kv/compress", Forgets(std::move(fields)));
    EXPECT_EQ(reply.status, 400);
    return reply.message();
  };
  EXPECT_THAT(refusal({{"prompt", TinyPrompt(20)}}), HasSubstr("fewer than 64 tokens"));
  EXPECT_THAT(refusal({{"prompt", {TinyPrompt(320), TinyPrompt(320)}}}), HasSubstr("one prompt"));
  EXPECT_THAT(refusal({{"prompt", TinyPrompt(320)}, {"stream", true}}), HasSubstr("stream"));
  EXPECT_THAT(refusal({{"prompt", TinyPrompt(320)}, {"ttl", 0}}), HasSubstr("ttl"));
  EXPECT_THAT(refusal(Json::object()), HasSubstr("prompt"));
}

}  // namespace
}  // namespace swiftkv
