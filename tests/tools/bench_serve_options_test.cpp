// SPDX-License-Identifier: Apache-2.0
// Tests the command line of `bench serve`.
#include "tools/bench_serve_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "support/option_fields.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;

Result<BenchServeOptions> Parse(std::vector<const char*> arguments) {
  return ParseBenchServeOptions(arguments);
}

TEST(BenchServeOptionsTest, FlagsOfServerAndLoadReachTheirFields) {
  const Result<BenchServeOptions> options = Parse({"http://a:1",
                                                   "--endpoint",
                                                   "chat",
                                                   "--model",
                                                   "m",
                                                   "--api-key",
                                                   "k",
                                                   "--extra-body",
                                                   "{\"a\": 1}",
                                                   "--timeout",
                                                   "3",
                                                   "--retries",
                                                   "5",
                                                   "--clients",
                                                   "7",
                                                   "--rate",
                                                   "1.5",
                                                   "--burstiness",
                                                   "0.5",
                                                   "--requests",
                                                   "11",
                                                   "--duration",
                                                   "13",
                                                   "--warmup",
                                                   "17",
                                                   "--warm-prefix",
                                                   "--disconnect-share",
                                                   "0.25"});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->target.url, "http://a:1");
  EXPECT_TRUE(options->chat());
  EXPECT_EQ(options->target.model, "m");
  EXPECT_EQ(options->target.api_key, "k");
  EXPECT_EQ(options->target.extra_body, "{\"a\": 1}");
  EXPECT_EQ(options->target.timeout_seconds, 3);
  EXPECT_EQ(options->target.retries, 5);
  EXPECT_EQ(options->load.clients, 7);
  EXPECT_EQ(options->load.rate, 1.5F);
  EXPECT_EQ(options->load.burstiness, 0.5F);
  EXPECT_EQ(options->load.requests, 11);
  EXPECT_EQ(options->load.duration_seconds, 13);
  EXPECT_EQ(options->load.warmup, 17);
  EXPECT_TRUE(options->load.warm_prefix);
  EXPECT_EQ(options->load.disconnect_share, 0.25F);
}

TEST(BenchServeOptionsTest, FlagsOfRequestsAndReportReachTheirFields) {
  const Result<BenchServeOptions> options = Parse({"http://a",
                                                   "--workload",
                                                   "multi-turn",
                                                   "--prompt",
                                                   "text",
                                                   "--prefix-tokens",
                                                   "29",
                                                   "--own-tokens",
                                                   "31",
                                                   "--output-tokens",
                                                   "37",
                                                   "--turns",
                                                   "23",
                                                   "--seed",
                                                   "19",
                                                   "--ignore-eos",
                                                   "--temperature",
                                                   "0.75",
                                                   "--goodput",
                                                   "ttft:1",
                                                   "--detailed",
                                                   "--json"});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_FALSE(options->chat());
  EXPECT_EQ(options->workload.workload, "multi-turn");
  EXPECT_EQ(options->workload.prompt, "text");
  EXPECT_EQ(options->workload.prefix_tokens, 29);
  EXPECT_EQ(options->workload.own_tokens, 31);
  EXPECT_EQ(options->workload.output_tokens, 37);
  EXPECT_EQ(options->workload.turns, 23);
  EXPECT_EQ(options->workload.seed, 19);
  EXPECT_TRUE(options->workload.ignore_eos);
  EXPECT_EQ(options->workload.temperature, 0.75F);
  EXPECT_EQ(options->report.goodput, "ttft:1");
  EXPECT_TRUE(options->report.detailed);
  EXPECT_TRUE(options->report.json);
}

TEST(BenchServeOptionsTest, BoundsThatAreNotGivenFollowFromTheOthers) {
  const BenchServeOptions plain = Parse({"http://a"}).value();
  EXPECT_EQ(plain.most_clients(), kServeClients);
  EXPECT_EQ(plain.most_requests(), kServeRequests);
  const BenchServeOptions open = Parse({"http://a", "--rate", "2", "--duration", "3"}).value();
  EXPECT_EQ(open.most_clients(), 0);
  EXPECT_EQ(open.most_requests(), 0);
  const BenchServeOptions capped =
      Parse({"http://a", "--rate", "2", "--concurrency", "5", "--duration", "3", "--requests", "9"})
          .value();
  EXPECT_EQ(capped.most_clients(), 5);
  EXPECT_EQ(capped.most_requests(), 9);
}

TEST(BenchServeOptionsTest, IdsAreSentWhereTheyCanBe) {
  EXPECT_TRUE(Parse({"http://a"}).value().sends_ids());
  EXPECT_TRUE(Parse({"http://a", "--workload", "sharegpt"}).value().sends_ids());
  EXPECT_FALSE(Parse({"http://a", "--prompt", "text"}).value().sends_ids());
  EXPECT_FALSE(Parse({"http://a", "--endpoint", "chat"}).value().sends_ids());
  EXPECT_FALSE(Parse({"http://a", "--workload", "multi-turn"}).value().sends_ids());
}

TEST(BenchServeOptionsTest, WhatCannotWorkIsRefused) {
  struct Case {
    std::vector<const char*> arguments;
    const char* says;
  };
  for (const Case& each : std::vector<Case>{
           {{}, "http://HOST:PORT"},
           {{"https://a"}, "TLS"},
           {{"http://a", "--endpoint", "embeddings"}, "embeddings"},
           {{"http://a", "--workload", "random"}, "random"},
           {{"http://a", "--prompt", "words"}, "words"},
           {{"http://a", "--prompt", "ids", "--endpoint", "chat"}, "--endpoint chat"},
           {{"http://a", "--prompt", "ids", "--workload", "multi-turn"}, "multi-turn"},
           {{"http://a", "--rate", "-1"}, "-1"},
           {{"http://a", "--burstiness", "0"}, "--burstiness"},
           {{"http://a", "--disconnect-share", "1.5"}, "1.5"},
           {{"http://a", "--temperature", "-2"}, "-2"},
           {{"http://a", "--extra-body", "[1]"}, "[1]"},
           {{"http://a", "--api-key", "a\r\nb"}, "--api-key"},
           {{"http://a", "--goodput", "ttft"}, "ttft"},
           {{"http://a", "--own-tokens", "0"}, "--own-tokens"}}) {
    const Result<BenchServeOptions> options = Parse(each.arguments);
    ASSERT_FALSE(options.ok()) << each.says;
    EXPECT_THAT(options.status().message(), HasSubstr(each.says));
  }
}

TEST(BenchServeOptionsTest, FieldsHaveDistinctKeysAndFlags) {
  BenchServeOptions options;
  DistinctFields fields;
  VisitOptions(fields, options);
}

}  // namespace
}  // namespace swiftkv
