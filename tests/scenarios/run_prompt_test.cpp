// SPDX-License-Identifier: Apache-2.0
// Tests that the same prompt gives the same reply whichever way it comes, and what it cost.
#include <cmath>

#include "model/vocabulary.h"
#include "scenarios/run_scenario.h"
#include "support/real_models.h"

namespace swiftkv {
namespace {

using nlohmann::json;
using testing::Each;
using testing::HasSubstr;

class RunPromptTest : public RunScenario {};

TEST_F(RunPromptTest, FlagFileAndStandardInputGiveTheSameReply) {
  const std::string prompt = "Tell me: what is a cache?\nThanks. Ä";
  const json expected = RunJson({"-p", prompt, "--temp", "0", "-n", "16", "--ignore-eos"});
  ASSERT_EQ(expected["completion_tokens"], 16);
  const std::string file = WriteFile("prompt.txt", prompt + "\n");
  const std::vector<std::string> rest = {"--temp", "0", "-n", "16", "--ignore-eos"};
  const auto with = [&rest](std::vector<std::string> first) {
    first.insert(first.end(), rest.begin(), rest.end());
    return first;
  };
  EXPECT_EQ(RunJson(with({"-f", file}))["tokens"], expected["tokens"]);
  EXPECT_EQ(RunJson(with({"-f", "-"}), prompt)["tokens"], expected["tokens"]);
  EXPECT_EQ(RunJson(rest, prompt + "\r\n")["tokens"], expected["tokens"]);
  EXPECT_EQ(RunJson(with({"-p", prompt}), "not read")["tokens"], expected["tokens"]);
}

TEST_F(RunPromptTest, ContextChunksAndThreadsDoNotChangeTheReply) {
  const std::vector<std::string> base = {"-p", std::string(300, 'x'), "--temp", "0", "-n", "16"};
  const json expected = RunJson(base);
  for (const std::vector<std::string>& extra :
       std::vector<std::vector<std::string>>{{"-c", "512"},
                                             {"--chunk", "1"},
                                             {"--chunk", "17"},
                                             {"-t", "1"},
                                             {"--kv-memory", "2MiB"},
                                             {"--attention", "reference"}}) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    EXPECT_EQ(RunJson(arguments)["tokens"], expected["tokens"]) << extra.front();
  }
}

TEST_F(RunPromptTest, TheSeedDecidesTheReply) {
  const std::vector<std::string> base = {"-p", "x", "--temp", "2", "-n", "16", "--ignore-eos"};
  const auto tokens = [&](const std::string& seed) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), {"--seed", seed});
    const json result = RunJson(arguments);
    EXPECT_EQ(result["seed"], std::stoull(seed));
    return result["tokens"];
  };
  EXPECT_EQ(tokens("7"), tokens("7"));
  EXPECT_NE(tokens("7"), tokens("8"));
}

TEST_F(RunPromptTest, TextGoesToStandardOutputAndTheFooterToStandardError) {
  const std::vector<std::string> base = {"-p", "x", "--temp", "0", "-n", "8", "--ignore-eos"};
  const std::string text = RunJson(base)["text"];
  const ProcessOutcome outcome = Run(base);
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_EQ(outcome.output, text.ends_with('\n') ? text : text + "\n");
  for (const char* part : {"reply 8 tokens", "f16", "waste", "contiguous"}) {
    EXPECT_THAT(outcome.error, HasSubstr(part));
  }
  std::vector<std::string> quiet = base;
  quiet.push_back("-q");
  EXPECT_EQ(Run(quiet).error, "");
  EXPECT_EQ(Run(quiet).output, outcome.output);
}

TEST_F(RunPromptTest, TokensThatEndAReplyAreNeverShown) {
  const auto vocabulary = Vocabulary::Load(model_);
  ASSERT_TRUE(vocabulary.ok());
  for (const TokenId end : (*vocabulary)->end_of_generation_tokens()) {
    const json result = RunJson({"-p", "x", "--logit-bias", std::to_string(end) + "=100"});
    EXPECT_EQ(result["text"], "");
    EXPECT_EQ(result["tokens"], json::array());
    EXPECT_EQ(result["finish_reason"], "stop");
  }
}

TEST_F(RunPromptTest, AGrammarBindsTheReply) {
  const std::vector<std::string> base = {"-p", "x", "--seed", "1"};
  for (const std::vector<std::string>& extra : std::vector<std::vector<std::string>>{
           {"--grammar", "root ::= \"yes\" | \"no\""},
           {"--grammar-file", WriteFile("answer.gbnf", "root ::= \"yes\" | \"no\"\n")}}) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    const json result = RunJson(arguments);
    EXPECT_THAT((std::vector<std::string>{"yes", "no"}), testing::Contains(result["text"]));
    EXPECT_EQ(result["finish_reason"], "stop");
  }
  const json result = RunJson({"-p", "x", "--json-schema", "{\"enum\": [12]}"});
  EXPECT_EQ(json::parse(result["text"].get<std::string>()), 12);
}

void ExpectBalance(const json& result) {
  const json& memory = result["memory"];
  const json& kv = result["kv"];
  const auto bytes = [&memory](const char* key) { return memory[key].get<std::uint64_t>(); };
  EXPECT_EQ(bytes("live_private_bytes") + bytes("live_shared_bytes") + bytes("cached_bytes") +
                bytes("free_bytes") + bytes("metadata_bytes"),
            bytes("mapped_bytes"));
  EXPECT_LE(bytes("mapped_bytes"), bytes("peak_bytes"));
  EXPECT_LE(bytes("peak_bytes"), bytes("limit_bytes"));
  EXPECT_EQ(kv["bytes_allocated"], memory["mapped_bytes"]);
  EXPECT_EQ(kv["peak_bytes"], memory["peak_bytes"]);
  EXPECT_LE(kv["bytes_used"], kv["bytes_allocated"]);
  const double waste = 1 - kv["bytes_used"].get<double>() / kv["bytes_allocated"].get<double>();
  EXPECT_NEAR(kv["waste_fraction"].get<double>(), waste, 1e-9);
}

TEST_F(RunPromptTest, TheBalanceOfBytesAddsUpAndStaysWithinTheBound) {
  const json result = RunJson({"-p", std::string(700, 'x'), "--temp", "0", "-n", "40",
                               "--ignore-eos", "--chunk", "64", "--kv-memory", "1MiB"});
  ExpectBalance(result);
  EXPECT_EQ(result["memory"]["limit_bytes"], 1 << 20);
  const json& kv = result["kv"];
  EXPECT_EQ(kv["format"], "f16");
  EXPECT_EQ(kv["policy"], "none");
  EXPECT_EQ(kv["quality"], "exact");
  // The last sampled token is not in the cache.
  EXPECT_EQ(kv["logical_tokens"], result["prompt_tokens"].get<int>() + 39);
  EXPECT_EQ(kv["kept_tokens"], kv["logical_tokens"]);
  EXPECT_EQ(kv["bytes_per_token"], 2 * 2 * 16 * 2 * 2);  // layers, heads, channels, K and V, f16
  EXPECT_EQ(kv["bytes_used"], kv["logical_tokens"].get<int>() * 256);
  EXPECT_EQ(kv["exact_bytes"], kv["bytes_used"]);
  EXPECT_EQ(kv["contiguous_bytes"], (1 << 17) * 256);
}

TEST_F(RunPromptTest, AReplyThatFillsTheMemoryEndsWithinIt) {
  const json result = RunJson({"-p", "x", "--temp", "0", "--ignore-eos", "--kv-memory", "256KiB"});
  ExpectBalance(result);
  EXPECT_EQ(result["finish_reason"], "length");
  EXPECT_GT(result["completion_tokens"], 300);
}

#if !defined(__SANITIZE_ADDRESS__)  // which makes a long prompt take minutes
TEST_F(RunPromptTest, TheRealModelsPagesAreWhatTheKernelCounts) {
  const Result<std::string> path = RealModelFile(RealModel::kSmolLm2);
  if (!path.ok()) GTEST_SKIP() << path.status().message();
  std::string prompt;
  for (int i = 0; i < 200; ++i) prompt += "The quick brown fox jumps over the lazy dog. ";
  const json result = RunJson(
      {"-m", *path, "-p", prompt, "--raw", "-n", "4", "--temp", "0", "--kv-memory", "60MiB"});
  ExpectBalance(result);
  const json& memory = result["memory"];
  const double pages =
      memory["mapped_bytes"].get<double>() - memory["metadata_bytes"].get<double>();
  EXPECT_GT(pages, 40e6);
  EXPECT_NEAR(memory["pages_resident_bytes"].get<double>(), pages, pages * 0.01);
  EXPECT_LE(result["kv"]["waste_fraction"].get<double>(), 0.01);
}
#endif

TEST_F(RunPromptTest, TheRealModelAnswers) {
  const Result<std::string> path = RealModelFile(RealModel::kSmolLm2);
  if (!path.ok()) GTEST_SKIP() << path.status().message();
  const json result = RunJson({"-m", *path, "-p", "What is 2+2?", "--temp", "0", "-n", "40"});
  EXPECT_THAT(result["text"].get<std::string>(), HasSubstr("4"));
  EXPECT_EQ(result["finish_reason"], "stop");
}

}  // namespace
}  // namespace swiftkv
