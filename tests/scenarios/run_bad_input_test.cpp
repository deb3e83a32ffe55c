// SPDX-License-Identifier: Apache-2.0
// Tests that what cannot work is told in one sentence, with a status and never a signal.
#include "scenarios/run_scenario.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;

class RunBadInputTest : public RunScenario {
 protected:
  void ExpectFailure(std::vector<std::string> arguments, int exit_status, const char* says,
                     const std::string& input = "") {
    SCOPED_TRACE(testing::PrintToString(arguments));
    const ProcessOutcome outcome = Run(std::move(arguments), input);
    ExpectOneSentence(outcome, exit_status);
    EXPECT_THAT(outcome.error, HasSubstr(says));
  }
};

TEST_F(RunBadInputTest, ModelsThatCannotBeLoaded) {
  const std::string whole = SerializeGguf(MakeTinyGguf(ScenarioModel()));
  RawGguf foreign = MakeTinyGguf(ScenarioModel());
  foreign.SetKey(GgufStringKey("general.architecture", "mamba\n\x1b[2J"));
  ExpectFailure({"-p", "x", "-m", directory_.FilePath("absent.gguf")}, 1, "absent.gguf");
  ExpectFailure({"-p", "x", "-m", directory_.path().string()}, 1, "regular file");
  ExpectFailure({"-p", "x", "-m", WriteFile("empty.gguf", "")}, 1, "empty.gguf");
  ExpectFailure({"-p", "x", "-m", WriteFile("text.gguf", "Hello, world!\n")}, 1, "GGUF");
  ExpectFailure({"-p", "x", "-m", WriteFile("foreign.gguf", SerializeGguf(foreign))}, 1, "qwen3");
  for (const double part : {0.1, 0.5, 0.99}) {
    const auto bytes = static_cast<std::size_t>(static_cast<double>(whole.size()) * part);
    ExpectFailure({"-p", "x", "-m", WriteFile("cut.gguf", whole.substr(0, bytes))}, 1, "cut.gguf");
  }
}

TEST_F(RunBadInputTest, WithoutAModelTheUserHearsWhereToGetOne) {
  ProcessSpec spec = Spec({"-p", "x"});
  spec.environment["SWIFTKV_MODEL"] = "";
  spec.environment["SWIFTKV_CACHE_DIR"] = directory_.FilePath("cache");
  const ProcessOutcome outcome = RunProcess(spec);
  ExpectOneSentence(outcome, 1);
  EXPECT_THAT(outcome.error, HasSubstr("make run"));
  EXPECT_THAT(outcome.error, HasSubstr(directory_.FilePath("cache")));
}

TEST_F(RunBadInputTest, PromptsThatCannotBeRead) {
  ExpectFailure({"-f", directory_.FilePath("absent.txt")}, 1, "absent.txt");
  ExpectFailure({"-f", directory_.path().string()}, 1, "directory");
  ExpectFailure({"-p", ""}, 1, "empty");
  ExpectFailure({"-p", "", "--raw"}, 1, "empty");
  ExpectFailure({"-f", WriteFile("empty.txt", "\n")}, 1, "empty");
  ExpectFailure({}, 1, "empty");
  ExpectFailure({"-p", "ab\xff"}, 1, "byte 2 is 0xff");
  ExpectFailure({"-f", WriteFile("latin1.txt", "caf\xe9")}, 1, "UTF-8");
  ExpectFailure({"-p", "x", "--system", "\xc0\x80"}, 1, "UTF-8");
  ExpectFailure({}, 1, "UTF-8", "\xed\xa0\x80");
}

TEST_F(RunBadInputTest, WhatDoesNotFitIsRefusedBeforeItIsComputed) {
  const std::string prompt(5000, 'x');
  ExpectFailure({"-p", prompt, "-c", "1000"}, 1, "context of 1000");
  ExpectFailure({"-p", prompt, "--kv-memory", "300KiB"}, 1, "300 KiB");
  ExpectFailure({"-p", "x", "--kv-memory", "1B"}, 1, "--kv-memory");
  ExpectFailure({"-p", "x", "-c", "999999"}, 1, "999999");
}

TEST_F(RunBadInputTest, CommandLinesThatMeanNothing) {
  ExpectFailure({"--nonsense"}, 2, "--nonsense");
  ExpectFailure({"-p", "x", "-n", "many"}, 2, "many");
  ExpectFailure({"-p", "x", "--temp", "-1"}, 2, "-1");
  ExpectFailure({"-p", "x", "--top-p", "7"}, 2, "7");
  ExpectFailure({"-p", "x", "--kv", "q4_0"}, 2, "f16");
  ExpectFailure({"-p", "x", "--kv", "auto", "--kv-k", "int8"}, 2, "--kv auto");
  ExpectFailure({"-p", "x", "--kv", "bf16", "--quality", "exact"}, 2, "near");
  ExpectFailure({"-p", "x", "-f", "y"}, 2, "-p and -f");
}

TEST_F(RunBadInputTest, GrammarsAndBiasesThatDoNotWork) {
  ExpectFailure({"-p", "x", "--grammar", "root ::= ("}, 1, "rammar");
  ExpectFailure({"-p", "x", "--grammar-file", directory_.FilePath("absent")}, 1, "absent");
  ExpectFailure({"-p", "x", "--json-schema", "{"}, 1, "chema");
  ExpectFailure({"-p", "x", "--logit-bias", "99999999=1"}, 1, "99999999");
}

TEST_F(RunBadInputTest, AModelWithoutATemplateRefusesChatsButRunsPrompts) {
  TinyModel plain = ScenarioModel();
  plain.name = "plain";
  plain.tokenizer.chat_template.clear();
  model_ = WriteTinyGguf(plain, directory_.path()).value();
  ExpectFailure({"-i"}, 1, "template", "Hello.\n");
  ExpectFailure({"-p", "x", "--system", "y"}, 1, "template");
  EXPECT_EQ(RunJson({"-p", "hello", "-n", "2", "--temp", "0"})["tokens"],
            RunJson({"-p", "hello", "-n", "2", "--temp", "0", "--raw"})["tokens"]);
}

TEST_F(RunBadInputTest, ADamagedTemplateLeavesTheRawWay) {
  TinyModel broken = ScenarioModel();
  broken.name = "broken";
  broken.tokenizer.chat_template = "{% for %}";
  model_ = WriteTinyGguf(broken, directory_.path()).value();
  ExpectFailure({"-p", "x"}, 1, "--raw");
  EXPECT_EQ(Run({"-p", "x", "-n", "2", "--raw"}).exit_status, 0);
}

TEST_F(RunBadInputTest, UnknownSubcommandsAreAnsweredWithTheList) {
  ProcessSpec spec;
  spec.arguments = {SwiftkvProgram(), "frobnicate\n"};
  const ProcessOutcome outcome = RunProcess(spec);
  ExpectOneSentence(outcome, 2);
  EXPECT_THAT(outcome.error, HasSubstr("run, serve, plan, eval, bench, inspect"));
  spec.arguments = {SwiftkvProgram()};
  ExpectOneSentence(RunProcess(spec), 2);
  spec.arguments = {SwiftkvProgram(), "--version"};
  EXPECT_EQ(RunProcess(spec).exit_status, 0);
}

#if !defined(__SANITIZE_ADDRESS__)  // which needs more address space than any limit here
TEST_F(RunBadInputTest, TooLittleAddressSpaceIsAFailureNotACrash) {
  for (const char* linear : {"auto", "onednn"}) {
    // Less is not enough for the program itself and its libraries.
    for (std::uint64_t mebibytes = 80; mebibytes <= 300; mebibytes += mebibytes < 120 ? 2 : 20) {
      ProcessSpec spec = Spec({"-p", "x", "-n", "2", "--linear", linear, "--kv-memory", "4MiB"});
      const TempDirectory nothing_measured;
      spec.environment["SWIFTKV_CACHE_DIR"] = nothing_measured.path().string();
      spec.address_space_bytes = mebibytes << 20;
      const ProcessOutcome outcome = RunProcess(spec);
      EXPECT_EQ(outcome.signal, 0) << linear << ", " << mebibytes << " MiB: " << outcome.error;
    }
  }
}
#endif

}  // namespace
}  // namespace swiftkv
