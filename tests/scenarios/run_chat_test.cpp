// SPDX-License-Identifier: Apache-2.0
// Tests the interactive chat through its standard input.
#include "scenarios/run_scenario.h"

namespace swiftkv {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class RunChatTest : public RunScenario {
 protected:
  // Returns one object for each turn.
  std::vector<json> Turns(std::vector<std::string> arguments, const std::string& input) const {
    for (const char* flag : {"-i", "--json", "--temp", "0", "-n", "12"}) arguments.push_back(flag);
    const ProcessOutcome outcome = Run(std::move(arguments), input);
    EXPECT_EQ(outcome.exit_status, 0) << outcome.error;
    std::vector<json> turns;
    std::istringstream lines(outcome.output);
    for (std::string line; std::getline(lines, line);) turns.push_back(json::parse(line));
    return turns;
  }
};

TEST_F(RunChatTest, ATurnComputesOnlyWhatTheCacheLacks) {
  const std::vector<json> turns = Turns({}, "Hello there.\nAnd now?\nGo on.\n");
  ASSERT_THAT(turns, SizeIs(3));
  EXPECT_EQ(turns[0]["cached_tokens"], 0);
  for (int i = 1; i < 3; ++i) {
    const int held = turns[i - 1]["kv"]["logical_tokens"];
    EXPECT_EQ(turns[i]["cached_tokens"], held);
    EXPECT_GT(turns[i]["prompt_tokens"], held);
    EXPECT_EQ(turns[i]["prefix_end"], "never_seen");
    EXPECT_TRUE(turns[i]["prefix_differs_at"].is_null());
  }
}

TEST_F(RunChatTest, AFirstMessageByFlagOpensTheChat) {
  const std::vector<json> expected = Turns({}, "Hello there.\nAnd now?\n");
  const std::vector<json> turns = Turns({"-p", "Hello there."}, "And now?\n");
  ASSERT_THAT(turns, SizeIs(2));
  EXPECT_EQ(turns[0]["tokens"], expected[0]["tokens"]);
  EXPECT_EQ(turns[1]["tokens"], expected[1]["tokens"]);
}

TEST_F(RunChatTest, ResetForgetsAndExitLeaves) {
  const std::vector<json> turns = Turns({}, "Hello.\n/reset\nHello.\n\n  \n/help\n/exit\nHello.\n");
  ASSERT_THAT(turns, SizeIs(2));
  EXPECT_EQ(turns[1]["tokens"], turns[0]["tokens"]);
  EXPECT_EQ(turns[1]["prompt_tokens"], turns[0]["prompt_tokens"]);
}

TEST_F(RunChatTest, ALineThatEndsWithABackslashGoesOn) {
  const std::vector<json> turns = Turns({}, "one\\\ntwo");
  ASSERT_THAT(turns, SizeIs(1));
  EXPECT_EQ(turns[0]["tokens"], RunJson({"-p", "one\ntwo", "--temp", "0", "-n", "12"})["tokens"]);
}

TEST_F(RunChatTest, TheSystemMessageCounts) {
  const json plain = Turns({}, "Hello.\n").at(0);
  const json with = Turns({"--system", "Answer in French."}, "Hello.\n").at(0);
  EXPECT_GT(with["prompt_tokens"], plain["prompt_tokens"]);
}

TEST_F(RunChatTest, OnATerminalWithoutAPromptAChatOpens) {
  ProcessSpec spec = Spec({"--temp", "0", "-n", "8"});
  spec.streams = StreamKind::kTerminal;
  spec.keep_input_open = true;
  spec.environment["NO_COLOR"] = "1";
  RunningProcess chat(spec);
  ASSERT_TRUE(chat.WaitForOutput("> "));
  chat.Write("Hello.\n");
  ASSERT_TRUE(chat.WaitForOutput("KV "));
  chat.Write("/exit\n");
  const ProcessOutcome outcome = chat.Wait();
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("/help"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("<|im_end|>")));
}

TEST_F(RunChatTest, CtrlCStopsTheReplyAndTheChatGoesOn) {
  ProcessSpec spec = Spec({"--temp", "0", "--ignore-eos"});
  spec.streams = StreamKind::kTerminal;
  spec.keep_input_open = true;
  RunningProcess chat(spec);
  ASSERT_TRUE(chat.WaitForOutput("> "));
  chat.Write("Hello.\n");
  ASSERT_TRUE(chat.WaitForOutputBytes(chat.output().size() + 40));
  chat.Write("\x03");
  ASSERT_TRUE(chat.WaitForOutput("KV "));
  chat.Write("/exit\n");
  EXPECT_EQ(chat.Wait().exit_status, 0);
}

}  // namespace
}  // namespace swiftkv
