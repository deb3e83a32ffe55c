// SPDX-License-Identifier: Apache-2.0
// Tests what requests may ask to be forgotten, and what nonsense is told.
#include "engine/forgetting_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/segment_recipe.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;

using When = CompactionSchedule::When;

const std::vector<LayerShape> kLayers(4, LayerShape{.kv_heads = 2, .head_dim = 64});

Result<std::shared_ptr<const ForgettingRule>> Make(const Forgetting& asked) {
  return MakeForgettingRule(asked, {.layers = kLayers, .format = {}});
}

TEST(ForgettingRuleTest, ARatioSetsWhenAndHowMuch) {
  const auto rule = Make({.policy = "keydiff", .ratio = 0.25}).value();
  EXPECT_EQ(rule->schedule.when, When::kWithinPrompt);
  EXPECT_EQ(rule->budget.ratio, 0.25);
  EXPECT_EQ(rule->name, "keydiff");
  EXPECT_TRUE(rule->query_agnostic());
}

TEST(ForgettingRuleTest, TheTextNamesSettingsOfPolicyAndBudget) {
  const auto rule = Make({.policy = "sink_recent:sinks=8,split=ada,floor=0.5,recent=32,"
                                    "min_tokens=64",
                          .ratio = 0.5})
                        .value();
  EXPECT_EQ(rule->name, "sink_recent:sinks=8");
  EXPECT_EQ(rule->budget.split, BudgetSplit::kAda);
  EXPECT_EQ(rule->budget.floor, 0.5);
  EXPECT_EQ(rule->budget.recent, 32);
  EXPECT_EQ(rule->schedule.newest, 32);
  EXPECT_EQ(rule->schedule.shortest, 64);
}

TEST(ForgettingRuleTest, APolicyBringsTheSplitThatWasMeasuredBestForIt) {
  const auto split = [](const std::string& policy) {
    return Make({.policy = policy, .ratio = 0.5}).value()->budget.split;
  };
  EXPECT_EQ(split("keydiff"), BudgetSplit::kAda);
  EXPECT_EQ(split("random"), BudgetSplit::kUniform);
  EXPECT_EQ(split("keydiff:split=global"), BudgetSplit::kGlobal);
  EXPECT_EQ(split("random:split=ada"), BudgetSplit::kAda);
}

TEST(ForgettingRuleTest, WhatKeepsOtherPagesHasAnotherRecipe) {
  const auto recipe = [](const Forgetting& asked) {
    return Make(asked).value()->own_recipes.prompt;
  };
  const std::string half = recipe({.policy = "keydiff", .ratio = 0.5});
  EXPECT_EQ(recipe({.policy = "keydiff:recent=128", .ratio = 0.5}), half);
  EXPECT_NE(recipe({.policy = "keydiff", .ratio = 0.51}), half);
  EXPECT_NE(recipe({.policy = "random", .ratio = 0.5}), half);
  EXPECT_NE(recipe({.policy = "keydiff:split=uniform", .ratio = 0.5}), half);
  EXPECT_NE(Make({.policy = "keydiff", .ratio = 0.5}).value()->own_recipes.shared, half);
}

TEST(ForgettingRuleTest, BudgetsInBytesAreThoseOfTokensThatFit) {
  // 4 layers x 2 heads x 16 tokens x 64 values x K and V x 2 bytes.
  constexpr int kBlockKib = 32;
  const auto bytes =
      Make({.policy = "keydiff", .budget = std::to_string(20 * kBlockKib) + "KiB"}).value();
  EXPECT_EQ(bytes->schedule.when, When::kAtBudget);
  EXPECT_EQ(bytes->schedule.budget, 320);
  const auto tokens = Make({.policy = "keydiff", .budget = "320tokens"}).value();
  EXPECT_EQ(bytes->schedule.target, tokens->schedule.target);
  EXPECT_LT(tokens->schedule.target, 320);
}

TEST(ForgettingRuleTest, NothingIsForgottenByNoneNorAtRatioZero) {
  EXPECT_EQ(Make({.policy = "none"}).value(), nullptr);
  EXPECT_EQ(Make({.policy = "none", .ratio = 0.5}).value(), nullptr);
  EXPECT_EQ(Make({.policy = "keydiff", .ratio = 0.0}).value()->schedule.when, When::kNever);
}

TEST(ForgettingRuleTest, NonsenseIsRefusedWithWhatIsAccepted) {
  const std::vector<std::pair<Forgetting, std::string>> wrong = {
      {{.policy = "kydiff", .ratio = 0.5}, "sink_recent, random, keydiff"},
      {{.policy = "keydiff"}, "a ratio from 0 to below 1, or a budget"},
      {{.ratio = 0.5}, "needs a policy"},
      {{.policy = "keydiff", .ratio = 1.0}, "from 0 (keeps all) to below 1, not: 1"},
      {{.policy = "keydiff", .ratio = -0.1}, "not: -0.1"},
      {{.policy = "keydiff", .ratio = 0.5, .budget = "512"}, "not both: 0.5 and 512"},
      {{.policy = "keydiff", .budget = "12apples"}, "not: 12apples"},
      {{.policy = "keydiff", .budget = "100"}, "at least 176 tokens"},
      {{.policy = "keydiff", .budget = "1KiB"}, "at least 352 KiB"},
      {{.policy = "keydiff:window=3", .ratio = 0.5}, "window"},
      {{.policy = "keydiff:recent=1.5", .ratio = 0.5}, "whole number from 0"},
      {{.policy = "keydiff:recent=-3", .ratio = 0.5}, "not: -3"},
      {{.policy = "keydiff:split=fair", .ratio = 0.5}, "uniform, pyramid, ada, global"},
      {{.policy = "keydiff", .ratio = 0.5, .kept_as = "int8"}, "FORMAT=SHARE, not: int8"},
      {{.policy = "keydiff", .ratio = 0.5, .kept_as = "int8=2"}, "at most 1, not: int8=2"},
      {{.policy = "keydiff", .ratio = 0.5, .kept_as = "int8="}, "at most 1, not: int8="},
      {{.policy = "keydiff", .ratio = 0.5, .kept_as = "q5=0.5"}, "got \"q5\""},
      {{.policy = "keydiff", .ratio = 0.5, .kept_as = "f16=0.5"}, "smaller format in part"},
      {{.kept_as = "int8=0.5"}, "needs a policy"},
      {{.policy = "snapkv", .ratio = 0.5}, "needed by policy: snapkv"},
      {{.policy = "expected_attention", .ratio = 0.5}, "needed by policy: expected_attention"},
  };
  for (const auto& [asked, sentence] : wrong) {
    const auto rule = Make(asked);
    ASSERT_FALSE(rule.ok()) << asked.policy << " " << asked.budget;
    EXPECT_THAT(rule.status().message(), HasSubstr(sentence));
  }
}

TEST(ForgettingRuleTest, APolicyThatLooksAtTheQuestionWaitsForItWhateverTheBudget) {
  const DecoderSpec decoder;
  const ForgettingTarget target = {.layers = kLayers, .format = {}, .decoder = &decoder};
  EXPECT_EQ(MakeForgettingRule({.policy = "snapkv", .ratio = 0.5}, target).value()->schedule.when,
            When::kAfterPrompt);
  const auto rule = MakeForgettingRule({.policy = "snapkv", .budget = "512"}, target).value();
  EXPECT_EQ(rule->schedule.when, When::kAtBudget);
  EXPECT_TRUE(rule->schedule.prompt_at_once);
  EXPECT_EQ(rule->schedule.NextAfter(5000, 0), 5000);
  EXPECT_EQ(rule->schedule.MostHeld(5000, 5001), 5000);
}

TEST(ForgettingRuleTest, PartOfWhatIsKeptMayGoIntoASmallerFormat) {
  const auto rule = Make({.policy = "keydiff", .ratio = 0.5, .kept_as = "int8=0.50"}).value();
  EXPECT_EQ(rule->kept_as, "int8=0.5");
  EXPECT_THAT(rule->kept_formats, testing::ElementsAre(KvFormat{}, KvFormat{"int8", "int8"}));
  EXPECT_THAT(rule->budget.format_shares, testing::ElementsAre(0.5, 0.5));
  const auto plain = Make({.policy = "keydiff", .ratio = 0.5}).value();
  EXPECT_EQ(plain->kept_as, "same");
  EXPECT_EQ(
      Make({.policy = "keydiff", .ratio = 0.5, .kept_as = "same"}).value()->own_recipes.prompt,
      plain->own_recipes.prompt);
  const auto other = Make({.policy = "keydiff", .ratio = 0.5, .kept_as = "fp8_e4m3=0.5"}).value();
  EXPECT_NE(rule->own_recipes.prompt, plain->own_recipes.prompt);
  EXPECT_NE(rule->own_recipes.prompt, other->own_recipes.prompt) << "the shares are the same";
  EXPECT_NE(rule->own_recipes.shared, other->own_recipes.shared);
}

TEST(ForgettingRuleTest, ARecipeIsReadAsItWasWritten) {
  const auto rule =
      Make({.policy = "sink_recent:sinks=8", .ratio = 0.25, .kept_as = "int8=0.5"}).value();
  const RecipeFields shared = ReadRecipe(rule->own_recipes.shared);
  EXPECT_TRUE(shared.is_shared);
  EXPECT_EQ(shared.policy, "sink_recent:sinks=8");
  EXPECT_EQ(shared.ratio, 0.25);
  EXPECT_EQ(shared.budget_tokens, std::nullopt);
  EXPECT_EQ(shared.kept_as, "int8=0.5");
  EXPECT_EQ(shared.statistics, "");
  const auto budget = Make({.policy = "keydiff", .budget = "320tokens"}).value();
  const RecipeFields prompt = ReadRecipe(budget->own_recipes.prompt);
  EXPECT_FALSE(prompt.is_shared);
  EXPECT_EQ(prompt.budget_tokens, static_cast<std::uint64_t>(budget->schedule.target));
  EXPECT_EQ(prompt.kept_as, "same");
  EXPECT_EQ(ReadRecipe("").policy, "");
}

TEST(ForgettingRuleTest, AModelOfWindowsAloneHasNothingToForget) {
  const std::vector<LayerShape> windows(2, LayerShape{.kv_heads = 1, .head_dim = 64, .window = 64});
  const auto rule =
      MakeForgettingRule({.policy = "keydiff", .ratio = 0.5}, {.layers = windows, .format = {}});
  ASSERT_FALSE(rule.ok());
  EXPECT_THAT(rule.status().message(), HasSubstr("sliding window"));
}

TEST(ForgettingRuleTest, FieldsThatAreLeftOutAreTheEnginesOwn) {
  const Forgetting own = {.policy = "keydiff", .ratio = 0.5};
  EXPECT_EQ(CompleteForgetting({.ratio = 0.25}, own).policy, "keydiff");
  EXPECT_EQ(CompleteForgetting({.ratio = 0.25}, own).ratio, 0.25);
  EXPECT_EQ(CompleteForgetting({.policy = "random"}, own).ratio, 0.5);
  EXPECT_EQ(CompleteForgetting({.policy = "random", .budget = "512"}, own).ratio, std::nullopt);
  EXPECT_EQ(CompleteForgetting({.policy = "none"}, own).ratio, std::nullopt);
  EXPECT_EQ(
      CompleteForgetting({.ratio = 0.25}, Forgetting{.policy = "keydiff", .kept_as = "int8=1"})
          .kept_as,
      "int8=1");
}

}  // namespace
}  // namespace swiftkv
