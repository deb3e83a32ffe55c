// SPDX-License-Identifier: Apache-2.0
// Tests which cells lists of formats, policies and ratios give.
#include "tools/eval_cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine_options.h"

namespace swiftkv {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Texts(const std::vector<PolicyChoice>& policies) {
  std::vector<std::string> texts;
  for (const PolicyChoice& policy : policies) texts.push_back(CanonicalPolicy(policy));
  return texts;
}

EvalCellLists Lists(const std::string& policies) {
  EvalCellLists lists;
  lists.formats = {ParsePageFormat("f16").value(), ParsePageFormat("int8").value()};
  lists.policies = ParsePolicyList(policies).value();
  lists.ratios = {0.25, 0.75};
  lists.splits = {BudgetSplit::kUniform, BudgetSplit::kAda};
  lists.kept_as = {"same"};
  return lists;
}

std::vector<std::string> Names(const std::vector<EvalCell>& cells) {
  std::vector<std::string> names;
  for (const EvalCell& cell : cells) {
    names.push_back(PageFormatName(cell.cell.format) + " " + cell.policy +
                    (cell.split == BudgetSplit::kAda ? " ada" : "") +
                    (cell.kept_as == "same" ? "" : " " + cell.kept_as));
  }
  return names;
}

TEST(EvalCellsTest, PoliciesKeepTheirParameters) {
  EXPECT_THAT(Texts(ParsePolicyList("keydiff,snapkv:window=32,pool=3,random").value()),
              ElementsAre("keydiff", "snapkv:pool=3,window=32", "random"));
  EXPECT_EQ(ParsePolicyList("all")->size(), AllPolicies().size());
  EXPECT_TRUE(ParsePolicyList("none")->empty());
  EXPECT_THAT(ParsePolicyList("keydif").status().message(), HasSubstr("keydif"));
  EXPECT_THAT(ParsePolicyList("pool=3").status().message(), HasSubstr("pool=3"));
  EXPECT_THAT(ParsePolicyList("keydiff,").status().message(), HasSubstr("keydiff"));
}

TEST(EvalCellsTest, RatiosAreFractionsThatAreRemoved) {
  EXPECT_THAT(ParseRatioList({".25", "0.5", "0.25"}).value(), ElementsAre(0.25, 0.5));
  for (const char* bad : {"0", "1", "-0.5", "x", "", "nan", "0.5x"}) {
    EXPECT_FALSE(ParseRatioList({bad}).ok()) << bad;
  }
}

TEST(EvalCellsTest, EveryFormatIsMeasuredWholeAndWithRandomBesideEveryPolicy) {
  const auto cells = ListEvalCells(Lists("keydiff,sink_recent")).value();
  EXPECT_EQ(cells.size(), 2U * (1 + 2 * 4));
  const std::vector<std::string> names = Names(cells);
  EXPECT_EQ(names[0], "f16 none");
  EXPECT_EQ(names[1], "f16 random");
  EXPECT_EQ(names[2], "f16 keydiff");
  EXPECT_EQ(names[3], "f16 keydiff ada");
  EXPECT_THAT(names[4], HasSubstr("f16 sink_recent"));
  EXPECT_EQ(names[5], "f16 random");
  EXPECT_EQ(names[9], "int8 none");
  EXPECT_EQ(cells[2].cell.rule->budget.ratio, 0.25);
  EXPECT_EQ(cells[3].cell.rule->budget.split, BudgetSplit::kAda);
}

TEST(EvalCellsTest, ControlsAreFoundByFormatAndRatio) {
  const auto cells = ListEvalCells(Lists("keydiff,sink_recent")).value();
  for (const EvalCell& cell : cells) {
    const std::size_t random = FindControl(cells, cell, "random");
    if (cell.policy == kNoPolicy) {
      EXPECT_EQ(random, cells.size());
      continue;
    }
    ASSERT_LT(random, cells.size());
    EXPECT_EQ(cells[random].policy, "random");
    EXPECT_EQ(cells[random].ratio, cell.ratio);
    EXPECT_EQ(cells[random].cell.format, cell.cell.format);
  }
}

TEST(EvalCellsTest, PartsInSmallerFormatsAreOfferedOnlyWhereTheyAreSmaller) {
  EvalCellLists lists = Lists("keydiff");
  lists.splits = {BudgetSplit::kUniform};
  lists.kept_as = {"same", "int8=0.75"};
  lists.ratios = {0.5};
  const auto cells = ListEvalCells(lists).value();
  EXPECT_THAT(Names(cells),
              ElementsAre("f16 none", "f16 random", "f16 keydiff", "f16 keydiff int8=0.75",
                          "int8 none", "int8 random", "int8 keydiff"));
  EXPECT_THAT(cells[3].cell.rule->budget.format_shares, ElementsAre(0.25, 0.75));
  EXPECT_THAT(cells[3].cell.rule->kept_formats, testing::SizeIs(2));
  for (const char* bad : {"int8", "int8=0", "int8=1.5", "int8=x", "q4=0.5", "=0.5"}) {
    lists.kept_as = {bad};
    EXPECT_FALSE(ListEvalCells(lists).ok()) << bad;
  }
}

}  // namespace
}  // namespace swiftkv
