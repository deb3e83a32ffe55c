// SPDX-License-Identifier: Apache-2.0
// Runs the scenarios of tests/cache/scenarios: one case for each file.
//
// Run with SWIFTKV_UPDATE_SCENARIOS=1 to write what is found as what is expected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cache/scenario_session.h"

namespace swiftkv {
namespace {

using std::filesystem::path;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kFolder = SWIFTKV_SOURCE_DIR "/tests/cache/scenarios";
constexpr const char* kUpdateVariable = "SWIFTKV_UPDATE_SCENARIOS";

std::vector<path> ScenarioFiles() {
  std::vector<path> files;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string ReadWhole(const path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::vector<ScenarioLine> LinesOf(const std::string& text) {
  std::istringstream in(text);
  return ParseScenario(in);
}

class ScenarioTest : public ScenarioSession, public testing::WithParamInterface<path> {};

TEST_P(ScenarioTest, EveryCommandHasTheOutcomeThatIsWrittenBesideIt) {
  const std::string file = GetParam().string();
  const std::string text = ReadWhole(GetParam());
  std::vector<ScenarioLine> lines = LinesOf(text);
  ASSERT_FALSE(lines.empty()) << file;
  EXPECT_THAT(lines[0].comment, StartsWith("# ")) << "the rule, in a sentence";
  Run(file, &lines);
  if (HasFailure()) return;
  const bool updates = std::getenv(kUpdateVariable) != nullptr;
  for (const ScenarioLine& line : lines) {
    const bool is_error = line.found.rfind(kError, 0) == 0;
    if (line.found == line.expected ? !is_error : updates && !is_error) continue;
    ADD_FAILURE_AT(file.c_str(), line.number)
        << line.command << "\n  expected: " << line.expected << "\n  found:    " << line.found;
  }
  if (HasFailure()) return;
  if (updates) std::ofstream(GetParam()) << ScenarioText(lines);
  EXPECT_EQ(ReadWhole(GetParam()), ScenarioText(lines))
      << kUpdateVariable << "=1 puts it into columns";
}

INSTANTIATE_TEST_SUITE_P(, ScenarioTest, testing::ValuesIn(ScenarioFiles()),
                         [](const auto& info) { return info.param.stem().string(); });

class ScenarioSessionTest : public ScenarioSession {};

TEST_F(ScenarioSessionTest, OutcomesAreWhatTheCacheDidNotWhatIsExpected) {
  std::vector<ScenarioLine> lines = LinesOf(
      "# A prompt is computed.\n"
      "cache two_by_two 400\n"
      "\n"
      "open a exact P:20 -> nonsense\n"
      "compute a\n"
      "    -> to 21\n"
      "show a -> 20 tokens\n");
  Run("text", &lines);
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(lines[3].number, 4);
  EXPECT_EQ(lines[3].expected, "nonsense");
  EXPECT_EQ(lines[3].found, "");
  EXPECT_EQ(lines[4].number, 5);
  EXPECT_EQ(lines[4].expected, "to 21");
  EXPECT_EQ(lines[4].found, "to 20");
  EXPECT_EQ(lines[5].number, 7);
  EXPECT_EQ(lines[5].found, "20 tokens, 32 KiB, rows 20 20 | 20 20");
  EXPECT_EQ(ScenarioText(lines),
            "# A prompt is computed.\n"
            "cache two_by_two 400\n"
            "\n"
            "open a exact P:20\n"
            "compute a            -> to 20\n"
            "show a               -> 20 tokens, 32 KiB, rows 20 20 | 20 20\n");
}

TEST_F(ScenarioSessionTest, CommandsThatMakeNoSenseAreErrorsThatQuoteThem) {
  EXPECT_EQ(Do("pool"), "error: the first command is not cache, but: pool");
  EXPECT_EQ(Do("cache round 400"), "error: a geometry is missing: cache round 400");
  ASSERT_EQ(Do("cache two_by_two 400"), "");
  ASSERT_EQ(Do("open a any P:20"), "");
  for (const auto& [command, wrong] : std::vector<std::pair<const char*, const char*>>{
           {"paint a", "no command: paint"},
           {"show", "a sequence is missing: show"},
           {"show b", "no sequence is called: b"},
           {"open a any P:20", "there already is a: a"},
           {"open b all P:20", "a level is missing: open b all P:20"},
           {"open b any P", "a prompt is missing: open b any P"},
           {"open b any P:20+Q:-1", "a prompt is missing: open b any P:20+Q:-1"},
           {"show a twice", "not understood: twice"},
           {"compress a by third", "what does not fit follows: by"},
           {"compress a to", "what does not fit follows: to"},
           {"compute a to 21", "the prompt has no tokens to come up to: 21"},
       }) {
    EXPECT_EQ(Do(command), std::string("error: ") + wrong);
  }
}

}  // namespace
}  // namespace swiftkv
