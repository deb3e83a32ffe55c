// SPDX-License-Identifier: Apache-2.0
// Tests how a run ends when the user or the reader of its output has had enough.
#include <csignal>

#include "scenarios/run_scenario.h"

namespace swiftkv {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class RunStoppingTest : public RunScenario {
 protected:
  // A reply of the whole context, far longer than any test waits.
  ProcessSpec EndlessReply() const { return Spec({"-p", "x", "--temp", "0", "--ignore-eos"}); }
};

TEST_F(RunStoppingTest, CtrlCEndsTheReplyAndStillTellsTheCost) {
  RunningProcess run(EndlessReply());
  ASSERT_TRUE(run.WaitForOutputBytes(20));
  run.Signal(SIGINT);
  const ProcessOutcome outcome = run.Wait();
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.exit_status, 130);
  EXPECT_THAT(outcome.error, HasSubstr("allocated"));
}

TEST_F(RunStoppingTest, CtrlCLeavesCompleteJson) {
  ProcessSpec spec = EndlessReply();
  spec.arguments.push_back("--json");
  spec.arguments.push_back("--verbose");
  RunningProcess run(spec);
  ASSERT_TRUE(run.WaitForError("KV memory at most"));
  run.Signal(SIGINT);
  const ProcessOutcome outcome = run.Wait();
  EXPECT_EQ(outcome.exit_status, 130);
  const json result = json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(result.is_object()) << outcome.output;
  EXPECT_EQ(result["finish_reason"], "cancelled");
  EXPECT_EQ(result["completion_tokens"], result["tokens"].size());
}

TEST_F(RunStoppingTest, AReaderThatLeavesEndsTheReplyQuietly) {
  RunningProcess run(EndlessReply());
  ASSERT_TRUE(run.WaitForOutputBytes(20));
  run.CloseOutput();
  const ProcessOutcome outcome = run.Wait();
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_EQ(outcome.error.find("swiftkv run:"), std::string::npos) << outcome.error;
}

TEST_F(RunStoppingTest, AClosedStandardOutputIsAnError) {
  ProcessSpec spec = Spec({"-p", "x", "-n", "4", "-q"});
  spec.close_output = true;
  ExpectOneSentence(RunProcess(spec), 1);
}

TEST_F(RunStoppingTest, AFullDiskIsAnError) {
  ProcessSpec spec = Spec({"-p", "x", "-n", "4", "-q"});
  spec.arguments = {"/bin/sh", "-c", "exec \"$0\" run -p x -n 4 -q >/dev/full", SwiftkvProgram()};
  const ProcessOutcome outcome = RunProcess(spec);
  ExpectOneSentence(outcome, 1);
  EXPECT_THAT(outcome.error, HasSubstr("No space left"));
}

}  // namespace
}  // namespace swiftkv
