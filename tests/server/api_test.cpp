// SPDX-License-Identifier: Apache-2.0
// Tests routes and the errors that they give.
#include "server/api.h"

#include "server/served_tiny_model.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(ApiTest, TellsHealthVersionAndModels) {
  ServedTinyModel served;
  EXPECT_EQ(served.Get("/health").body["status"], "ok");
  EXPECT_EQ(served.Get("/version").body["version"], SWIFTKV_VERSION);
  const ApiReply models = served.Get("/v1/models");
  EXPECT_EQ(models.body["object"], "list");
  ASSERT_EQ(models.body["data"].size(), 1U);
  EXPECT_EQ(models.body["data"][0]["id"], "tiny");
  EXPECT_EQ(models.body["data"][0]["max_model_len"], 256);
}

TEST(ApiTest, DescribesTheModelByItsNameAndNoOther) {
  ServedTinyModel served;
  const Json listed = served.Get("/v1/models").body["data"][0];
  for (const char* path : {"/v1/models/tiny", "/v1/models/%74in%79"}) {
    EXPECT_EQ(served.Get(path).body, listed) << path;
  }
  for (const char* path : {"/v1/models/other", "/v1/models/tiny/", "/v1/models/tin%7",
                           "/v1/models/%", "/v1/models/%zz", "/v1/models/%2", "/v1/models/tiny%00",
                           "/v1/models/%FF%0A", "/v1/models/\xC3"}) {
    const ApiReply reply = served.Get(path);
    EXPECT_EQ(reply.status, 404) << path;
    EXPECT_EQ(reply.body["error"]["code"], "model_not_found") << path;
    EXPECT_EQ(reply.body["error"]["param"], "model");
    EXPECT_EQ(reply.body["error"]["type"], "invalid_request_error");
    EXPECT_EQ(reply.message().find('\n'), std::string::npos);
  }
  EXPECT_EQ(served.Get("/v1/models/").body["error"]["code"], "not_found");
  EXPECT_EQ(served.Post("/v1/models/tiny", "{}").status, 405);
}

TEST(ApiTest, TokenizesThereAndBack) {
  ServedTinyModel served;
  const std::string text = "Gr\u00fc\u00dfe, <|im_start|> \U0001F600";
  const ApiReply tokens =
      served.PostJson("/tokenize", Json{{"prompt", text}, {"add_special_tokens", false}});
  ASSERT_EQ(tokens.status, 200);
  EXPECT_EQ(tokens.body["count"], tokens.body["tokens"].size());
  const ApiReply back = served.PostJson("/detokenize", Json{{"tokens", tokens.body["tokens"]}});
  EXPECT_EQ(back.body["prompt"], text);
  EXPECT_EQ(served.PostJson("/tokenize", Json{{"content", ""}}).body["count"], 0);
}

TEST(ApiTest, GivesOpenAiErrorsForWhatIsNotServed) {
  ServedTinyModel served;
  const ApiReply missing = served.Get("/nowhere\n\xFF");
  EXPECT_EQ(missing.status, 404);
  for (const char* key : {"message", "type", "param", "code"}) {
    EXPECT_TRUE(missing.body["error"].contains(key)) << key;
  }
  EXPECT_EQ(missing.body["error"]["type"], "invalid_request_error");
  const ApiReply method = served.Get("/tokenize");
  EXPECT_EQ(method.status, 405);
  EXPECT_THAT(method.message(), HasSubstr("POST"));
  EXPECT_EQ(served.Post("/tokenize", "{\"prompt\": \"\xC4\xE3\"}").status, 400);
  EXPECT_EQ(served.Post("/tokenize", "{}").body["error"]["param"], "prompt");
  EXPECT_EQ(served.PostJson("/detokenize", Json{{"tokens", {1, 100000}}}).status, 400);
}

TEST(ApiTest, QuotesAnyBytesOfAModelNameWithoutFailing) {
  ServedTinyModel served;
  const ApiReply reply =
      served.Post("/v1/completions", R"({"prompt": "a", "model": "\u0000\n\ud83d\ude00\""})");
  EXPECT_EQ(reply.status, 404);
  EXPECT_EQ(reply.body["error"]["code"], "model_not_found");
  EXPECT_EQ(reply.message().find('\n'), std::string::npos);
}

TEST(ApiTest, RefusesWrongTypesAndRangesByTheNameOfTheField) {
  ServedTinyModel served;
  const std::vector<std::pair<std::string, std::string>> fields = {
      {"max_tokens", "0"},
      {"max_tokens", "-1"},
      {"max_tokens", "1.5"},
      {"max_tokens", "\"10\""},
      {"max_tokens", "2147483648"},
      {"max_tokens", "4294967297"},
      {"max_tokens", "9223372036854775808"},
      {"max_tokens", "1e308"},
      {"n", "0"},
      {"n", "-1"},
      {"n", "1000"},
      {"n", "1000000000"},
      {"temperature", "-0.1"},
      {"temperature", "\"hot\""},
      {"top_p", "1.1"},
      {"min_p", "-1"},
      {"top_k", "1.5"},
      {"top_k", "-32"},
      {"top_k", "9223372036854775807"},
      {"logprobs", "-1"},
      {"logprobs", "21"},
      {"logprobs", "9223372036854775808"},
      {"seed", "1.5"},
      {"seed", "9223372036854775808"},
      {"frequency_penalty", "3"},
      {"presence_penalty", "[]"},
      {"logit_bias", "[]"},
      {"logit_bias", "{\"-1\": 1}"},
      {"logit_bias", "{\"abc\": 1}"},
      {"logit_bias", "{\"100000\": 1}"},
      {"logit_bias", "{\"1\": 1e9}"},
      {"logit_bias", "{\"1\": null}"},
      {"stop_token_ids", "[-1]"},
      {"stop_token_ids", "[100000]"},
      {"stop", "\"\""},
      {"stop", "[1]"},
      {"stream", "1"},
      {"ignore_eos", "\"yes\""},
      {"echo", "0"},
      {"stream_options", "{}"},
      {"best_of", "5"},
      {"kv_quality", "\"best\""},
      {"kv_format", "\"f17\""},
      {"cache_salt", "7"},
      {"cache_prompt", "\"no\""},
      {"suffix", "\"end\""},
      {"model", "[]"},
  };
  for (const auto& [name, value] : fields) {
    const ApiReply reply =
        served.Post("/v1/completions", "{\"prompt\": \"a\", \"" + name + "\": " + value + "}");
    EXPECT_EQ(reply.status, 400) << name << " " << value;
    EXPECT_EQ(reply.body["error"]["param"], name) << value;
    EXPECT_THAT(reply.message(), StartsWith(name)) << value;
  }
  EXPECT_EQ(
      served.PostJson("/v1/completions", Json{{"prompt", "a"}, {"max_tokens", nullptr}}).status,
      200);
}

TEST(ApiTest, RefusesPromptsThatGiveNothingOrDoNotFit) {
  ServedTinyModel served;
  for (const char* prompt :
       {"\"\"", "[\"\"]", "[]", "[[]]", "[\"\", \"x\"]", "7", "{}", "[1, \"a\"]", "[[1], 2]",
        "[-1]", "[1.5]", "[100000]", "[true]", "null"}) {
    const ApiReply reply =
        served.Post("/v1/completions", std::string("{\"prompt\": ") + prompt + "}");
    EXPECT_EQ(reply.status, 400) << prompt;
  }
  const ApiReply fits =
      served.PostJson("/v1/completions", Json{{"prompt", TinyPrompt(255)}, {"max_tokens", 10000}});
  EXPECT_EQ(fits.body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(fits.body["usage"]["completion_tokens"], 1);
  const ApiReply over = served.PostJson("/v1/completions", Json{{"prompt", TinyPrompt(256)}});
  EXPECT_EQ(over.status, 400);
  EXPECT_THAT(over.message(), HasSubstr("256"));
  // Text that no tokens could make fit is not turned into tokens.
  const std::string text(1 << 20, 'x');
  const Json messages = Json::array({{{"role", "user"}, {"content", text}}});
  for (const ApiReply& reply :
       {served.PostJson("/v1/completions", Json{{"prompt", text}}),
        served.PostJson("/v1/chat/completions", Json{{"messages", messages}}),
        served.PostJson("/tokenize", Json{{"prompt", text}})}) {
    EXPECT_EQ(reply.status, 400);
    EXPECT_EQ(reply.body["error"]["code"], "context_length_exceeded");
    EXPECT_THAT(reply.message(), testing::EndsWith("not: 1048576"));
  }
}

TEST(ApiTest, AsksForAKeyWhereOneIsSet) {
  ServedTinyModel served({.keys = {"one", "two"}, .admin_keys = {}});
  const std::string body = R"({"prompt": "abc", "max_tokens": 1})";
  EXPECT_EQ(served.Post("/v1/completions", body).status, 401);
  EXPECT_EQ(served.Post("/v1/completions", body, "three").status, 401);
  EXPECT_EQ(served.Post("/v1/completions", body, "one").status, 200);
  EXPECT_EQ(served.Get("/health").status, 200);
}

TEST(ApiTest, ShowsTheCacheToOperatorsOnly) {
  HttpRequest request{.method = "GET", .path = "/kv", .authorization = "", .body = ""};
  ServedTinyModel open;
  EXPECT_EQ(open.Call(request).status, 401);
  request.from_loopback = true;
  const ApiReply local = open.Call(request);
  EXPECT_EQ(local.status, 200);
  EXPECT_EQ(local.body["bytes"]["live_private"], 0);
  EXPECT_GT(local.body["bytes"]["limit"], 0);
  ServedTinyModel used;
  used.PostJson("/v1/completions", Json{{"prompt", TinyPrompt(40)}, {"max_tokens", 4}});
  Json kv;
  do {  // it is told at the end of a step, after the reply
    kv = used.Call(request).body;
  } while (kv["finished_requests"] != 1);
  std::int64_t sum = 0;
  for (const char* state : {"live_private", "live_shared", "cached", "free", "metadata"}) {
    sum += kv["bytes"][state].get<std::int64_t>();
  }
  EXPECT_EQ(sum, kv["bytes"]["mapped"]);
  EXPECT_GT(kv["bytes"]["cached"], 0);
  EXPECT_GT(kv["waste_fraction"], 0);
  EXPECT_LT(kv["waste_fraction"], 1);
  EXPECT_EQ(kv["prompt_tokens"], 40);
  EXPECT_EQ(kv["formats"][0]["format"], "f32");
  ServedTinyModel closed({.keys = {"one"}, .admin_keys = {"root"}});
  EXPECT_EQ(closed.Call(request).status, 401);
  request.authorization = "Bearer one";
  EXPECT_EQ(closed.Call(request).status, 401);
  request.authorization = "Bearer root";
  request.from_loopback = false;
  EXPECT_EQ(closed.Call(request).status, 200);
}

TEST(ApiTest, ForgetsCachedPrefixesForOperatorsOnly) {
  ServedTinyModel served({.keys = {}, .admin_keys = {"root"}});
  const std::string body =
      WriteJson({{"prompt", TinyPrompt(100)}, {"max_tokens", 2}, {"ignore_eos", true}});
  const auto cached = [&] {
    const ApiReply reply = served.Post("/v1/completions", body);
    return reply.body["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>();
  };
  EXPECT_EQ(cached(), 0);
  EXPECT_EQ(served.Post("/reset_prefix_cache", "").status, 401);
  EXPECT_GT(cached(), 0);
  const ApiReply dropped = served.Post("/reset_prefix_cache", "", "root");
  EXPECT_EQ(dropped.status, 200);
  EXPECT_EQ(dropped.body["dropped_blocks"], 6);
  EXPECT_GT(dropped.body["freed_bytes"], 0);
  EXPECT_EQ(cached(), 0);
  served.api().StopEngine();
  EXPECT_EQ(served.Post("/reset_prefix_cache", "", "root").status, 503);
}

TEST(ApiTest, SharesPromptsWithinATenantOnly) {
  ServedTinyModel served({.keys = {"one", "two"}, .admin_keys = {}});
  const std::string body =
      WriteJson({{"prompt", TinyPrompt(100)}, {"max_tokens", 2}, {"ignore_eos", true}});
  const auto cached = [&](const char* key) {
    const ApiReply reply = served.Post("/v1/completions", body, key);
    return reply.body["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>();
  };
  EXPECT_EQ(cached("one"), 0);
  EXPECT_GT(cached("one"), 0);
  EXPECT_EQ(cached("two"), 0);
}

TEST(ApiTest, RefusesNewWorkOnceItDrains) {
  ServedTinyModel served;
  served.api().StartDraining();
  EXPECT_EQ(served.Get("/health").status, 503);
  EXPECT_EQ(served.PostJson("/v1/completions", Json{{"prompt", "a"}}).status, 503);
}

}  // namespace
}  // namespace swiftkv
