// SPDX-License-Identifier: Apache-2.0
// Runs `bench engine` on tiny models: keys, counts and refusals, never speeds.
#include <set>

#include "scenarios/run_scenario.h"

namespace swiftkv {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::SizeIs;

class BenchEngineScenario : public RunScenario {
 protected:
  ProcessOutcome Bench(std::vector<std::string> arguments) const {
    ProcessSpec spec = Spec({});
    spec.arguments = {SwiftkvProgram(),
                      "bench",
                      "engine",
                      "-t",
                      "1",
                      "--requests",
                      "4",
                      "--shared",
                      "64",
                      "--own",
                      "9",
                      "--new",
                      "5",
                      "--rounds",
                      "2",
                      "--chunk",
                      "48",
                      "--late-prompt",
                      "200",
                      "--kv-memory",
                      "8MiB"};
    spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
    return RunProcess(spec);
  }

  json BenchJson(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    return JsonOf(Bench(std::move(arguments)));
  }
};

TEST_F(BenchEngineScenario, RequestsShareTheirPrefixAndNothingOfAnEarlierRound) {
  const json result = BenchJson({"--formats", "f16,int8"});
  EXPECT_EQ(result["chunk"], 48);
  ASSERT_THAT(result["rows"], SizeIs(4));
  for (std::size_t i = 0; i < 2; ++i) {
    const json& row = result["rows"][i];
    SCOPED_TRACE(row.dump());
    EXPECT_EQ(row["phase"], "batch");
    EXPECT_EQ(row["format"], i == 0 ? "f16" : "int8");
    EXPECT_EQ(row["cached_tokens"], 3 * 64);
    EXPECT_GT(row["tokens_per_s"].get<double>(), 0);
    EXPECT_LT(row["kv_bytes"].get<double>(), row["unshared_bytes"].get<double>());
    EXPECT_GE(row["overhead"].get<double>(), 0);
    EXPECT_LE(row["overhead"].get<double>(), 1);
    const double named = row["scheduling_share"].get<double>() + row["memory_share"].get<double>() +
                         row["sampling_share"].get<double>();
    EXPECT_GT(named, 0);
    EXPECT_LE(named, 1);
    EXPECT_LE(row["ttft_mean_ms"].get<double>(), row["ttft_max_ms"].get<double>());
  }
  for (std::size_t i = 2; i < 4; ++i) {
    const json& row = result["rows"][i];
    EXPECT_EQ(row["phase"], "late_prompt");
    EXPECT_EQ(row["prompt_tokens"], 200);
    EXPECT_GT(row["ttft_ms"].get<double>(), 0);
    EXPECT_GT(row["ttft_alone_ms"].get<double>(), 0);
  }
}

TEST_F(BenchEngineScenario, WithNothingSharedNothingIsFound) {
  const json result = BenchJson({"--shared", "0", "--own", "40", "--late-prompt", "0"});
  ASSERT_THAT(result["rows"], SizeIs(1));
  EXPECT_EQ(result["rows"][0]["cached_tokens"], 0);
}

TEST_F(BenchEngineScenario, PeopleGetTables) {
  const ProcessOutcome outcome = Bench({});
  ASSERT_EQ(outcome.exit_status, 0) << outcome.error;
  for (const char* word : {"llama", "tokens/s", "cached", "gap", "alone", "f16"}) {
    EXPECT_THAT(outcome.output, HasSubstr(word));
  }
}

TEST_F(BenchEngineScenario, WhatCannotBeMeasuredIsOneSentence) {
  ExpectOneSentence(Bench({"--formats", "int9"}), 2);
  ExpectOneSentence(Bench({"--own", "0"}), 2);
  ExpectOneSentence(Bench({"-m", directory_.FilePath("absent.gguf")}), 1);
  const ProcessOutcome deep = Bench({"-c", "64"});
  ExpectOneSentence(deep, 1);
  EXPECT_THAT(deep.error, HasSubstr("not: 78"));
}

}  // namespace
}  // namespace swiftkv
