// SPDX-License-Identifier: Apache-2.0
// Has a real model count on while its cache forgets, past the first tokens that are dropped and
// many times more: positions that followed the kept tokens, not the text, would make it loop.
#include "scenarios/run_scenario.h"
#include "support/real_models.h"
#include "support/sanitizers.h"

namespace swiftkv {
namespace {

using nlohmann::json;

constexpr int kGiven = 60;    // numbers in the prompt
constexpr int kReply = 150;   // tokens
constexpr int kBudget = 256;  // tokens

TEST(RunCountingTest, CountingGoesOnRightPastTheFirstEviction) {
  const Result<std::string> model = RealModelFile(RealModel::kSmolLm2);
  if (!model.ok()) GTEST_SKIP() << model.status().message();
  if (kSanitized) GTEST_SKIP() << "a model of this size takes a sanitizer minutes";
  std::string prompt;
  for (int i = 1; i <= kGiven; ++i) prompt += std::to_string(i) + (i < kGiven ? ", " : ",");
  const TempDirectory directory;
  ProcessSpec spec;
  spec.arguments = {SwiftkvProgram(),
                    "run",
                    "-m",
                    *model,
                    "--raw",
                    "-p",
                    prompt,
                    "--temp",
                    "0",
                    "-n",
                    std::to_string(kReply),
                    "--ignore-eos",
                    "--policy",
                    "sink_recent",
                    "--kv-budget",
                    std::to_string(kBudget),
                    "--json"};
  spec.environment["SWIFTKV_CACHE_DIR"] = directory.FilePath("cache");
  const json reply = JsonOf(RunProcess(spec));
  EXPECT_GE(reply["compactions"], 4);
  EXPECT_LE(reply["kv"]["kept_tokens"], kBudget);
  EXPECT_EQ(reply["kv"]["logical_tokens"], reply["prompt_tokens"].get<int>() + kReply - 1)
      << "the last token is never computed";
  std::string counted;
  const std::string text = reply["text"];
  for (int i = kGiven + 1; counted.size() < text.size(); ++i) {
    counted += " " + std::to_string(i) + ",";
  }
  EXPECT_EQ(text, counted.substr(0, text.size()));
}

}  // namespace
}  // namespace swiftkv
