// SPDX-License-Identifier: Apache-2.0
// Tests `run --prompts` as a whole program: order, JSON, refusals and equality with single runs.
#include "scenarios/run_scenario.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class RunPromptsTest : public RunScenario {};

TEST_F(RunPromptsTest, RepliesComeInTheOrderOfThePromptsAndEqualSingleRuns) {
  const std::string file = WriteFile("prompts.txt", "first one\nand another\n\nthird\n");
  const nlohmann::json object =
      RunJson({"--prompts", file, "-n", "12", "--temp", "0", "--ignore-eos", "--raw"});
  ASSERT_THAT(object["replies"], SizeIs(3));
  const std::vector<std::string> prompts = {"first one", "and another", "third"};
  for (std::size_t i = 0; i < 3; ++i) {
    const nlohmann::json& reply = object["replies"][i];
    const nlohmann::json alone =
        RunJson({"-p", prompts[i], "-n", "12", "--temp", "0", "--ignore-eos", "--raw"});
    EXPECT_EQ(reply["prompt_tokens"], alone["prompt_tokens"]) << i;
    EXPECT_THAT(reply["tokens"], SizeIs(12));
    EXPECT_EQ(reply["finish_reason"], "length");
    EXPECT_GE(reply["total_ms"], reply["ttft_ms"]);
  }
  EXPECT_EQ(object["completion_tokens"], 36);
  EXPECT_LT(object["steps"], 36) << "computed together";
  EXPECT_EQ(object["memory"]["live_tokens"], 0);
}

TEST_F(RunPromptsTest, EachReplyTellsWhyNoMoreOfItsPromptWasCached) {
  const std::string shared(70, 'x');
  const std::string file = WriteFile(
      "prompts.txt", shared + std::string(30, 'a') + "\n" + shared + std::string(30, 'b') + "\n");
  const nlohmann::json object =
      RunJson({"--prompts", file, "-n", "2", "--ignore-eos", "--raw", "--max-seqs", "1"});
  const nlohmann::json& first = object["replies"][0];
  EXPECT_EQ(first["prefix_end"], "never_seen");
  EXPECT_TRUE(first["prefix_differs_at"].is_null());
  const nlohmann::json& second = object["replies"][1];
  EXPECT_EQ(second["prefix_end"], "token_differs");
  EXPECT_EQ(second["prefix_differs_at"], second["cached_tokens"]);
  EXPECT_GT(second["cached_tokens"], 16);
}

TEST_F(RunPromptsTest, ObjectsBringTheirOwnOptions) {
  const std::string file = WriteFile(
      "prompts.jsonl",
      "{\"prompt\":\"one\",\"max_tokens\":3,\"seed\":4}\n{\"prompt\":\"two\",\"choices\":2}\n");
  const nlohmann::json object = RunJson({"--prompts", file, "-n", "5", "--ignore-eos"});
  EXPECT_EQ(object["replies"][0]["completion_tokens"], 3);
  EXPECT_EQ(object["replies"][0]["seed"], 4);
  EXPECT_EQ(object["replies"][1]["completion_tokens"], 10);
  EXPECT_THAT(object["replies"][1]["choices"], SizeIs(2));
}

TEST_F(RunPromptsTest, APromptThatCannotBeAnsweredStopsNoOther) {
  const std::string file =
      WriteFile("prompts.txt", "short\n" + std::string(400, 'x') + "\nalso short\n");
  const ProcessOutcome outcome =
      Run({"--prompts", file, "-n", "2", "--ignore-eos", "--raw", "-c", "64", "-q"});
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.error, HasSubstr("prompt 2: the prompt does not fit"));
  EXPECT_THAT(outcome.output, HasSubstr("# 1: short\n"));
  EXPECT_THAT(outcome.output, HasSubstr("# 3: also short\n"));
}

TEST_F(RunPromptsTest, MorePromptsThanTheQueueTakesAreAllAnswered) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "prompt number " + std::to_string(i) + "\n";
  const nlohmann::json object = RunJson(
      {"--prompts", "-", "-n", "3", "--ignore-eos", "--max-seqs", "3", "--queue", "2"}, lines);
  ASSERT_THAT(object["replies"], SizeIs(40));
  for (const nlohmann::json& reply : object["replies"]) EXPECT_EQ(reply["completion_tokens"], 3);
}

TEST_F(RunPromptsTest, BadFilesAreOneSentence) {
  ExpectOneSentence(Run({"--prompts", directory_.FilePath("none")}), 1);
  ExpectOneSentence(Run({"--prompts", WriteFile("empty", "")}), 1);
  ExpectOneSentence(Run({"--prompts", WriteFile("bad", "{\"prompt\":3")}), 1);
  ExpectOneSentence(Run({"--prompts", "x", "-p", "y"}), 2);
}

}  // namespace
}  // namespace swiftkv
