// SPDX-License-Identifier: Apache-2.0
// Checks which budgets are refused, and with which sentences.
#include "policy/budget_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace swiftkv {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string Refusal(const BudgetSettings& settings) {
  const Status status = CheckBudget(settings);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  return status.message();
}

TEST(BudgetSettingsTest, ARatioIsBelowOne) {
  for (const double ratio : {0.0, 0.5, 0.99}) EXPECT_TRUE(CheckBudget({.ratio = ratio}).ok());
  EXPECT_THAT(Refusal({.ratio = 1}), EndsWith("from 0 (keeps all) to below 1, not: 1"));
  EXPECT_THAT(Refusal({.ratio = -0.1}), EndsWith("not: -0.1"));
  EXPECT_THAT(Refusal({.ratio = kNan}), EndsWith("not: nan"));
}

TEST(BudgetSettingsTest, ABudgetInTokensHoldsSinksAndNewest) {
  BudgetSettings settings = {.unit = BudgetUnit::kTokens, .amount = 175, .sinks = 4, .recent = 128};
  EXPECT_EQ(LeastTokens(settings), 16 + 144 + 16);
  EXPECT_THAT(Refusal(settings), HasSubstr("at least 176 tokens"));
  EXPECT_THAT(Refusal(settings), EndsWith("not: 175"));
  settings.amount = 176;
  EXPECT_TRUE(CheckBudget(settings).ok());
  settings.amount = 0;
  EXPECT_THAT(Refusal(settings), EndsWith("not: 0"));
  EXPECT_EQ(LeastTokens({.sinks = 0, .recent = 0}), 32);
  EXPECT_EQ(LeastTokens({.sinks = 16, .recent = 1}), 48);
}

TEST(BudgetSettingsTest, TheRestIsNamedWithItsRange) {
  EXPECT_THAT(Refusal({.sinks = -1}), EndsWith("from 0 to 1048576, not: -1"));
  EXPECT_THAT(Refusal({.recent = -64}), HasSubstr("recent"));
  EXPECT_THAT(Refusal({.shortest_length = -1}), HasSubstr("shortest length"));
  EXPECT_THAT(Refusal({.floor = 1.5}), EndsWith("from 0 to 1, not: 1.5"));
  EXPECT_THAT(Refusal({.floor = kNan}), HasSubstr("floor"));
  EXPECT_THAT(Refusal({.steepness = 0.5}), EndsWith("from 1 to 1000, not: 0.5"));
  EXPECT_THAT(Refusal({.format_shares = {}}), EndsWith("1 to 4 formats, not: 0"));
  EXPECT_THAT(Refusal({.format_shares = {0.5, 0.25}}), EndsWith("add up to 1, not: 0.75"));
  EXPECT_THAT(Refusal({.format_shares = {1.5, -0.5}}), EndsWith("from 0 to 1, not: 1.5"));
  EXPECT_TRUE(CheckBudget({.format_shares = {0.1, 0.2, 0.7}}).ok());
}

TEST(BudgetSettingsTest, WholeBlocksBeforeTheNewestMayBeDropped) {
  const BudgetSettings settings = {.recent = 64};
  for (const std::int64_t length : {0, 1, 2, 5, 20, 64, 79}) {
    EXPECT_EQ(CompressibleEnd(settings, length), 0) << length;
  }
  EXPECT_EQ(CompressibleEnd(settings, 80), 16);
  EXPECT_EQ(CompressibleEnd(settings, 1000), 928);
  EXPECT_EQ(CompressibleEnd({.recent = 0}, 17), 16);
}

TEST(BudgetSplitTest, NamesAreFoundAndAnUnknownOneIsAnsweredWithTheList) {
  for (const BudgetSplitInfo& info : AllBudgetSplits()) {
    EXPECT_EQ(*FindBudgetSplit(info.name), info.split);
  }
  const auto split = FindBudgetSplit("fair");
  ASSERT_FALSE(split.ok());
  EXPECT_THAT(split.status().message(), EndsWith("uniform, pyramid, ada, global, not: fair"));
}

}  // namespace
}  // namespace swiftkv
