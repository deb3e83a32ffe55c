// SPDX-License-Identifier: Apache-2.0
// Runs `bench attention` at tiny sizes: keys, arithmetic and refusals, never speeds.
#include <set>

#include "scenarios/run_scenario.h"

namespace swiftkv {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::SizeIs;

ProcessOutcome Bench(std::vector<std::string> arguments) {
  ProcessSpec spec;
  spec.arguments = {SwiftkvProgram(), "bench"};
  spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
  return RunProcess(spec);
}

// Seconds would be spent at the default sizes.
std::vector<std::string> Tiny(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"attention", "--megabytes", "1",       "--contexts",
                                        "100",       "--batches",   "1,3",     "--shared",
                                        "48",        "--rounds",    "1",       "--prefill-contexts",
                                        "40",        "--head-dims", "64,128",  "-t",
                                        "2",         "--formats",   "f16,bf16"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(BenchAttentionScenario, JsonHasTheMachineAndARowForEveryCase) {
  const ProcessOutcome outcome = Bench(Tiny({"--json"}));
  ASSERT_EQ(outcome.exit_status, 0) << outcome.error;
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.output.find('\n'), outcome.output.size() - 1);
  const json result = json::parse(outcome.output);
  EXPECT_GT(result["machine_gb_s"].get<double>(), 0);
  EXPECT_GT(result["machine_gflop_s"].get<double>(), 0);
  EXPECT_EQ(result["threads"], 2);
  EXPECT_TRUE(result.contains("machine_amx_bf16_gflop_s"));
  ASSERT_THAT(result["rows"], SizeIs(2 * 2 * (2 + 1 + 1)));
  for (const json& row : result["rows"]) {
    SCOPED_TRACE(row.dump());
    std::set<std::string> keys;
    for (const auto& item : row.items()) keys.insert(item.key());
    EXPECT_THAT(keys, IsSupersetOf({"phase", "isa", "format", "head_dim", "kv_heads", "gqa",
                                    "context", "batch", "shared_tokens", "us", "bytes_read", "gb_s",
                                    "fraction", "raw_fraction", "gflop_s"}));
    const double us = row["us"].get<double>();
    ASSERT_GT(us, 0);
    const double bytes = row["bytes_read"].get<double>();
    EXPECT_NEAR(row["gb_s"].get<double>(), bytes / us * 1e-3, 1e-3);
    const bool decode = row["phase"] == "decode";
    const bool cascade = row["phase"] == "cascade";
    EXPECT_EQ(row["raw_fraction"].is_number(), decode);
    EXPECT_EQ(row["fraction"].is_number(), decode || cascade);
    EXPECT_EQ(row["ratio"].is_number(), cascade);
    EXPECT_EQ(row["bound_ratio"].is_number(), cascade);
    EXPECT_EQ(row["peak_fraction"].is_number(), row["phase"] == "prefill");
    EXPECT_TRUE(!decode || bytes >= 1e6);
    EXPECT_EQ(row["shared_tokens"], cascade ? 48 : 0);
    // 16 tokens of K and V in two bytes a value.
    const double page = 16 * 2 * 2 * row["head_dim"].get<double>();
    EXPECT_EQ(bytes / page, static_cast<double>(static_cast<std::int64_t>(bytes / page)));
  }
}

TEST(BenchAttentionScenario, PeopleGetATableForEachPhase) {
  const ProcessOutcome outcome = Bench(Tiny({}));
  ASSERT_EQ(outcome.exit_status, 0) << outcome.error;
  for (const char* word : {"2 threads", "GB/s", "Decode", "Cascade", "Prefill", "bf16"}) {
    EXPECT_THAT(outcome.output, HasSubstr(word));
  }
}

TEST(BenchAttentionScenario, WhatCannotBeMeasuredIsOneSentence) {
  ExpectOneSentence(Bench({}), 2);
  ExpectOneSentence(Bench({"everything"}), 2);
  ExpectOneSentence(Bench({"attention", "--formats", "int9"}), 2);
  ExpectOneSentence(
      Bench({"attention", "--megabytes", "65536", "--contexts", "1048576", "--batches", "1024",
             "--formats", "f32", "--phases", "decode", "--head-dims", "128"}),
      1);
  EXPECT_EQ(Bench({"--help"}).exit_status, 0);
  EXPECT_THAT(Bench({"attention", "--help"}).output, HasSubstr("--prefill-contexts"));
}

}  // namespace
}  // namespace swiftkv
