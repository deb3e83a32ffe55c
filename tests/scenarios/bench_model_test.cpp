// SPDX-License-Identifier: Apache-2.0
// Runs `bench model` on tiny models: keys, shares and refusals, never speeds.
#include <set>

#include "scenarios/run_scenario.h"

namespace swiftkv {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::SizeIs;

class BenchModelScenario : public RunScenario {
 protected:
  ProcessOutcome Bench(std::vector<std::string> arguments) const {
    ProcessSpec spec = Spec({});
    spec.arguments = {SwiftkvProgram(), "bench", "model",    "-t", "1",       "--prefill", "20",
                      "--decode",       "3",     "--rounds", "2",  "--chunk", "32"};
    spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
    return RunProcess(spec);
  }

  json BenchJson(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    return JsonOf(Bench(std::move(arguments)));
  }
};

TEST_F(BenchModelScenario, JsonHasARowForEveryDepthAndFormat) {
  const json result = BenchJson({"--depths", "0,50,33", "--formats", "f16,bf16,f32"});
  EXPECT_EQ(result["architecture"], "llama");
  EXPECT_EQ(result["prefill_tokens"], 20);
  EXPECT_EQ(result["decode_tokens"], 3);
  ASSERT_THAT(result["rows"], SizeIs(9));
  for (std::size_t i = 0; i < 9; ++i) {
    const json& row = result["rows"][i];
    SCOPED_TRACE(row.dump());
    std::set<std::string> keys;
    for (const auto& item : row.items()) keys.insert(item.key());
    EXPECT_THAT(keys, IsSupersetOf({"format", "depth", "batch", "shared_tokens", "prefill_tps",
                                    "decode_tps", "prompt_tps", "busy"}));
    const int depth = std::vector<int>{0, 50, 33}[i / 3];
    EXPECT_EQ(row["depth"], depth);
    EXPECT_EQ(row["format"], (std::vector<std::string>{"f16", "bf16", "f32"}[i % 3]));
    EXPECT_EQ(row["batch"], 1);
    EXPECT_EQ(row["shared_tokens"], 0);
    EXPECT_GT(row["prefill_tps"].get<double>(), 0);
    EXPECT_GT(row["decode_tps"].get<double>(), 0);
    EXPECT_EQ(row["prompt_tps"].is_null(), depth == 0);
    for (const char* share : {"prefill_attention_share", "decode_attention_share"}) {
      EXPECT_GE(row[share].get<double>(), 0);
      EXPECT_LE(row[share].get<double>(), 1);
    }
  }
}

TEST_F(BenchModelScenario, ABatchSharesAsManyTokensAsItsDepthHas) {
  const json result =
      BenchJson({"--depths", "0,48,100", "--formats", "f16", "--batch", "4", "--shared", "64"});
  ASSERT_THAT(result["rows"], SizeIs(3));
  EXPECT_EQ(result["rows"][0]["shared_tokens"], 0);
  EXPECT_EQ(result["rows"][1]["shared_tokens"], 48);
  EXPECT_EQ(result["rows"][2]["shared_tokens"], 64);
  for (const json& row : result["rows"]) EXPECT_EQ(row["batch"], 4);
}

TEST_F(BenchModelScenario, ModelsWithWindowsAreMeasuredBehindEveryDepth) {
  TinyModel model = ScenarioModel();
  model.name = "windows";
  model.family = TinyFamily::kGemma3;
  model.shape.layers = 7;
  const std::string path = WriteTinyGguf(model, directory_.path()).value();
  const json result = BenchJson(
      {"-m", path, "--depths", "20,100,300", "--batch", "2", "--shared", "40", "--formats", "f16"});
  ASSERT_THAT(result["rows"], SizeIs(3));
}

TEST_F(BenchModelScenario, PeopleGetATable) {
  const ProcessOutcome outcome = Bench({"--depths", "0,40"});
  ASSERT_EQ(outcome.exit_status, 0) << outcome.error;
  for (const char* word : {"llama", "depth", "prefill", "decode", "share", "bf16"}) {
    EXPECT_THAT(outcome.output, HasSubstr(word));
  }
}

TEST_F(BenchModelScenario, WhatCannotBeMeasuredIsOneSentence) {
  ExpectOneSentence(Bench({"--formats", "int9"}), 2);
  ExpectOneSentence(Bench({"--depths", "0,,1"}), 2);
  ExpectOneSentence(Bench({"--batch", "0"}), 2);
  ExpectOneSentence(Bench({"--isa", "sse1"}), 2);
  ExpectOneSentence(Bench({"-m", directory_.FilePath("absent.gguf")}), 1);
  const ProcessOutcome deep = Bench({"-c", "64", "--depths", "50"});
  ExpectOneSentence(deep, 1);
  EXPECT_THAT(deep.error, HasSubstr("not: 50"));
  const ProcessOutcome full =
      Bench({"--kv-memory", "64KiB", "--depths", "4000", "--formats", "f16"});
  ExpectOneSentence(full, 1);
}

}  // namespace
}  // namespace swiftkv
