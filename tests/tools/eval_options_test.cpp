// SPDX-License-Identifier: Apache-2.0
// Tests the command line of `eval`.
#include "tools/eval_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/page_format_table.h"
#include "tools/calibration_text.h"

namespace swiftkv {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<EvalOptions> Parse(std::vector<const char*> arguments) {
  return ParseEvalOptions(arguments);
}

std::vector<std::string> Names(const std::vector<PageFormat>& formats) {
  std::vector<std::string> names;
  for (const PageFormat& format : formats) names.push_back(PageFormatName(format));
  return names;
}

TEST(EvalOptionsTest, EveryFlagReachesItsField) {
  const Result<EvalOptions> options =
      Parse({"-m", "x.gguf", "--formats", "int8,k8v4", "--text", "t.txt", "--weights", "asis", "-c",
             "512", "-t", "2", "--json", "--chunk", "64"});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->model.path, "x.gguf");
  EXPECT_THAT(options->formats.names, ElementsAre("int8", "k8v4"));
  EXPECT_EQ(options->text_file, "t.txt");
  EXPECT_EQ(options->weights, "asis");
  EXPECT_EQ(options->model.context, 512);
  EXPECT_EQ(options->model.threads, 2);
  EXPECT_EQ(options->model.max_batch_rows, 64);
  EXPECT_TRUE(options->output.json);
}

TEST(EvalOptionsTest, F16ComesFirstAndNothingTwice) {
  EXPECT_THAT(Names(FormatsToMeasure({{"int8", "f16", "int8/int8"}}).value()),
              ElementsAre("f16", "int8"));
  EXPECT_THAT(Names(FormatsToMeasure({{"int4/fp8_e4m3"}}).value()),
              ElementsAre("f16", "int4/fp8_e4m3"));
}

TEST(EvalOptionsTest, AllStandsForEveryNamedFormat) {
  const EvalOptions defaults = Parse({}).value();
  EXPECT_TRUE(NamesAll(defaults.formats));
  EXPECT_EQ(FormatsToMeasure(defaults.formats)->size(), AllPageFormats().size());
  EXPECT_EQ(FormatsToMeasure({{"f16/int8", "all"}})->size(), AllPageFormats().size() + 1);
  EXPECT_FALSE(NamesAll({{"int8"}}));
}

TEST(EvalOptionsTest, PoliciesGiveCellsOfF16UnlessFormatsAreNamed) {
  const EvalOptions options =
      Parse({"--policies", "keydiff,snapkv:window=32,pool=3", "--ratios", ".5", "--budget-split",
             "uniform,ada", "--out", "d", "--windows", "2", "--needles", "3", "--seed", "7"})
          .value();
  EXPECT_EQ(options.folder, "d");
  EXPECT_EQ(options.windows, 2);
  EXPECT_EQ(options.needles, 3);
  EXPECT_EQ(options.seed, 7);
  const std::vector<EvalCell> cells = CellsToMeasure(options).value();
  EXPECT_EQ(cells.size(), 1U + 1 + 2 * 2);
  for (const EvalCell& cell : cells) EXPECT_EQ(PageFormatName(cell.cell.format), "f16");
  EXPECT_EQ(CellsToMeasure(Parse({"--policies", "none"}).value())->size(), 1U);
  EXPECT_EQ(CellsToMeasure(Parse({"--policies", "random", "--formats", "int8"}).value())->size(),
            2U * 4);
}

TEST(EvalOptionsTest, BadForgettingIsRefusedWithWhatIsAccepted) {
  EXPECT_THAT(Parse({"--policies", "lru"}).status().message(), HasSubstr("keydiff"));
  EXPECT_THAT(Parse({"--policies", "snapkv:pool=4"}).status().message(), HasSubstr("odd"));
  EXPECT_THAT(Parse({"--policies", "all", "--ratios", "1"}).status().message(), HasSubstr("ratio"));
  EXPECT_THAT(Parse({"--budget-split", "even"}).status().message(), HasSubstr("pyramid"));
  EXPECT_THAT(Parse({"--policies", "all", "--kept-as", "int8=2"}).status().message(),
              HasSubstr("int8=2"));
  EXPECT_THAT(Parse({"--windows", "0"}).status().message(), HasSubstr("--windows"));
}

TEST(EvalOptionsTest, BadValuesAreRefusedWithWhatIsAccepted) {
  EXPECT_THAT(Parse({"--formats", "q4_0"}).status().message(), HasSubstr("k8v4"));
  EXPECT_THAT(Parse({"--formats", "auto"}).status().message(), HasSubstr("k8v4"));
  EXPECT_THAT(Parse({"--formats", "int8,"}).status().message(), HasSubstr("--formats"));
  EXPECT_THAT(Parse({"--weights", "q8"}).status().message(), HasSubstr("asis"));
  EXPECT_THAT(Parse({"-c", "5"}).status().message(), HasSubstr("--context"));
  EXPECT_THAT(Parse({"--isa", "sse"}).status().message(), HasSubstr("sse"));
}

TEST(CalibrationTextTest, IsPartOfTheProgramAndLongEnoughForAWindow) {
  EXPECT_GT(CalibrationText().size(), 10000U);
  EXPECT_LT(CalibrationText().size(), 12000U);
  EXPECT_EQ(std::string(CalibrationTextSha256()).size(), 64U);
}

}  // namespace
}  // namespace swiftkv
