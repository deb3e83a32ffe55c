// SPDX-License-Identifier: Apache-2.0
// Tests `swiftkv run` with a policy that forgets: what is kept, what memory falls, what is refused.
#include "scenarios/run_scenario.h"

namespace swiftkv {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class RunPolicyTest : public RunScenario {
 protected:
  // Of about 3,000 tokens.
  std::vector<std::string> With(const std::vector<std::string>& extra) const {
    std::vector<std::string> arguments = {"--raw", "-p", text_, "--temp",
                                          "0",     "-n", "8",   "--ignore-eos"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    return arguments;
  }

  const std::string text_ = std::string(3000, 'x');
};

TEST_F(RunPolicyTest, AFractionOfTheCacheIsGivenBackAsTheKernelCounts) {
  const json all = RunJson(With({}));
  const json half = RunJson(With({"--policy", "keydiff", "--ratio", "0.5"}));
  EXPECT_EQ(all["kv"]["policy"], "none");
  EXPECT_EQ(all["kv"]["ratio"], nullptr);
  const json& kv = half["kv"];
  EXPECT_EQ(kv["policy"], "keydiff");
  EXPECT_EQ(kv["ratio"], 0.5);
  EXPECT_EQ(kv["quality"], "any");
  EXPECT_EQ(kv["logical_tokens"], all["kv"]["logical_tokens"]);
  EXPECT_EQ(half["compactions"], 1);
  const double tokens = kv["logical_tokens"];
  EXPECT_LT(kv["kept_tokens"], 0.53 * tokens);
  EXPECT_GT(kv["kept_tokens"], 0.45 * tokens);
  const auto pages = [](const json& run) {
    return run["memory"]["pages_resident_bytes"].get<double>();
  };
  EXPECT_LT(pages(half), 0.6 * pages(all)) << "pages of 4 KiB that are in use in part remain";
  EXPECT_LE(kv["bytes_used"], kv["bytes_allocated"]);
}

TEST_F(RunPolicyTest, ABudgetHoldsWhateverTheLength) {
  const json run = RunJson(With({"--policy", "sink_recent", "--kv-budget", "512tokens"}));
  EXPECT_LE(run["kv"]["kept_tokens"], 512);
  EXPECT_GT(run["kv"]["logical_tokens"], 2900);
  EXPECT_EQ(run["kv"]["budget"], "512tokens");
}

TEST_F(RunPolicyTest, ManyPromptsForgetAsOneDoes) {
  const std::vector<std::string> policy = {"--policy", "keydiff", "--ratio", "0.5"};
  const json one = RunJson(With(policy));
  std::vector<std::string> arguments = {"--raw",  "--prompts",   WriteFile("prompts.txt", text_),
                                        "--temp", "0",           "-n",
                                        "8",      "--ignore-eos"};
  arguments.insert(arguments.end(), policy.begin(), policy.end());
  const json many = RunJson(arguments);
  EXPECT_EQ(many["replies"][0]["tokens"], one["tokens"]);
  EXPECT_EQ(many["replies"][0]["kv"]["kept_tokens"], one["kv"]["kept_tokens"]);
}

TEST_F(RunPolicyTest, NonsenseIsOneSentence) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--policy", "oldest", "--ratio", "0.5"}, "sink_recent, random, keydiff"},
      {{"--policy", "keydiff"}, "neither came with"},
      {{"--policy", "keydiff", "--ratio", "1"}, "below 1"},
      {{"--policy", "keydiff", "--ratio", "half"}, "--ratio"},
      {{"--policy", "keydiff", "--ratio", "0.5", "--kv-budget", "512"}, "not both"},
      {{"--policy", "keydiff", "--kv-budget", "8"}, "at least"},
      {{"--ratio", "0.5"}, "needs a policy"},
      {{"--policy", "keydiff", "--ratio", "0.5", "--quality", "near"}, "--quality near"},
      {{"--policy", "keydiff", "--kv-budget", "4KiB"}, "at least"},
  };
  for (const auto& [arguments, sentence] : wrong) {
    const ProcessOutcome outcome = Run(With(arguments));
    EXPECT_NE(outcome.exit_status, 0);
    ExpectOneSentence(outcome, outcome.exit_status);
    EXPECT_THAT(outcome.error, HasSubstr(sentence));
  }
}

}  // namespace
}  // namespace swiftkv
