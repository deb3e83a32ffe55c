// SPDX-License-Identifier: Apache-2.0
// Checks that equal settings have one text, others another, and that nonsense is refused.
#include "policy/policy_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace swiftkv {
namespace {

using testing::EndsWith;

std::string Canonical(std::string_view text) {
  const Result<PolicyChoice> choice = ParsePolicy(text);
  return choice.ok() ? CanonicalPolicy(*choice) : choice.status().message();
}

TEST(PolicyTextTest, EqualSettingsHaveOneText) {
  EXPECT_EQ(Canonical("snapkv"), "snapkv:pool=5,window=64");
  for (const char* text :
       {"snapkv:window=64", "snapkv:pool=5,window=64.0", "snapkv:window=6.4e1,pool=5"}) {
    EXPECT_EQ(Canonical(text), Canonical("snapkv")) << text;
  }
  EXPECT_EQ(Canonical("expected_attention:epsilon=0"),
            "expected_attention:epsilon=0,horizon=512,sinks=4");
  EXPECT_EQ(Canonical("keydiff"), "keydiff");
}

TEST(PolicyTextTest, ACanonicalTextIsReadAsWhatItIsOf) {
  for (const EvictionPolicy* policy : AllPolicies()) {
    const std::string text = Canonical(policy->info().name);
    EXPECT_EQ(Canonical(text), text);
  }
}

TEST(PolicyTextTest, NonsenseIsRefusedByWhatIsWrongWithIt) {
  const std::pair<const char*, const char*> cases[] = {
      {"oracle", "not: oracle"},
      {"", "not: "},
      {"snapkv:", "not: "},
      {"snapkv:pool", "not: pool"},
      {"snapkv:=5", "not: =5"},
      {"snapkv:pool=", "not: pool="},
      {"snapkv:pool=5x", "not: pool=5x"},
      {"snapkv:pool=5,", "not: "},
      {"snapkv:pool=5,pool=5", "not again: pool=5"},
      {"snapkv:pool=4", "not: 4"},
      {"snapkv:pool=nan", "not: nan"},
      {"keydiff:pool=5", "not: pool"},
  };
  for (const auto& [text, end] : cases) {
    const Result<PolicyChoice> choice = ParsePolicy(text);
    ASSERT_FALSE(choice.ok()) << text;
    EXPECT_EQ(choice.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(choice.status().message(), EndsWith(end)) << text;
  }
}

TEST(PolicyTextTest, ABudgetIsTokensOrBytes) {
  BudgetSettings settings;
  for (const char* text : {"4096", "4096tokens"}) {
    settings = {};
    ASSERT_TRUE(ParseBudgetAmount(text, &settings).ok()) << text;
    EXPECT_EQ(settings.unit, BudgetUnit::kTokens);
    EXPECT_EQ(settings.amount, 4096U);
  }
  ASSERT_TRUE(ParseBudgetAmount("1.5MiB", &settings).ok());
  EXPECT_EQ(settings.unit, BudgetUnit::kBytes);
  EXPECT_EQ(settings.amount, 1536U << 10);
  for (const char* text : {"", "tokens", "-1", "1.5", "all", "5 apples", "99999999999999999999"}) {
    const Status status = ParseBudgetAmount(text, &settings);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(PolicyTextTest, WhateverKeepsOtherTokensHasAnotherText) {
  const BudgetSettings plain = {.ratio = 0.5};
  EXPECT_EQ(CanonicalBudget(plain),
            "ratio=0.5,split=uniform,sinks=4,recent=128,shortest_length=256,shares=1");
  std::vector<BudgetSettings> others(9, plain);
  others[0].ratio = 0.25;
  others[1].unit = BudgetUnit::kTokens;
  others[2].unit = BudgetUnit::kBytes;
  others[3].split = BudgetSplit::kAda;
  others[4] = others[3];
  others[4].floor = 0.5;
  others[5].sinks = 8;
  others[6].recent = 64;
  others[7].format_shares = {0.5, 0.5};
  others[8].shortest_length = 512;
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_NE(CanonicalBudget(others[i]), CanonicalBudget(plain)) << i;
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(CanonicalBudget(others[i]), CanonicalBudget(others[j])) << i << ' ' << j;
    }
  }
}

TEST(PolicyTextTest, WhatASplitDoesNotLookAtIsNotInItsText) {
  EXPECT_EQ(CanonicalBudget({.ratio = 0.5, .floor = 0.7, .steepness = 3}),
            CanonicalBudget({.ratio = 0.5}));
}

}  // namespace
}  // namespace swiftkv
