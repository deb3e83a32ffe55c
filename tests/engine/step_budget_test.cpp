// SPDX-License-Identifier: Apache-2.0
// Tests how many rows of prompts a step may have while replies are under way.
#include "engine/step_budget.h"

#include <gtest/gtest.h>

#include <set>

#include "model/language_model.h"

namespace swiftkv {
namespace {

constexpr bool kStreams = true;

TEST(StepBudgetTest, NobodyWhoWaitsLeavesStepsWhole) {
  StepBudget budget(512);
  EXPECT_EQ(budget.PromptRows(!kStreams), 512);
  budget.Learn(!kStreams, 512, 10);
  EXPECT_EQ(budget.PromptRows(!kStreams), 512);
}

TEST(StepBudgetTest, BeforeAnythingIsKnownAQuarterIsTaken) {
  EXPECT_EQ(StepBudget(512).PromptRows(kStreams), 128);
  EXPECT_EQ(StepBudget(32).PromptRows(kStreams), 16);
  EXPECT_EQ(StepBudget(7).PromptRows(kStreams), 7);
}

TEST(StepBudgetTest, StepsAreAsLongAsTheStallAllows) {
  StepBudget budget(512);
  budget.Learn(kStreams, 128, 0.1);
  const int rows = budget.PromptRows(kStreams);
  EXPECT_GT(rows, 128);
  EXPECT_LT(rows * 0.1 / 128, kStallSeconds);
}

TEST(StepBudgetTest, WhatStreamsThemselvesTakeIsNotThePrompts) {
  StepBudget budget(512);
  budget.Learn(kStreams, 0, 0.1);
  budget.Learn(kStreams, 64, 0.164);  // 1 ms a row
  const int rows = budget.PromptRows(kStreams);
  EXPECT_GE(rows, 85);
  EXPECT_LT(0.1 + rows * 0.001, kStallSeconds);
}

// The model makes a graph and kernels for each number of rows that it has not seen.
TEST(StepBudgetTest, NumbersOfRowsAreFew) {
  std::set<int> seen;
  for (int millis = 1; millis < 2000; ++millis) {
    StepBudget budget(512);
    budget.Learn(kStreams, 128, millis * 1e-3);
    const int rows = budget.PromptRows(kStreams);
    seen.insert(rows);
    const double exact = 0.7 * kStallSeconds * 128 / (millis * 1e-3);
    if (exact <= 512 && exact >= 64) {
      ASSERT_LE(rows, exact);
      ASSERT_GE(rows, exact - 16 - exact / 8);
    }
  }
  EXPECT_LE(seen.size(), 24U);
}

TEST(StepBudgetTest, PromptsGoOnBesideStreamsThatAreSlowByThemselves) {
  StepBudget budget(512);
  budget.Learn(kStreams, 0, 0.4);
  budget.Learn(kStreams, 16, 0.416);
  EXPECT_EQ(budget.PromptRows(kStreams), 384);  // as much time again, in coarse numbers
}

TEST(StepBudgetTest, ASlowMachineStillComputesABlock) {
  StepBudget budget(512);
  budget.Learn(kStreams, 128, 1000);
  EXPECT_EQ(budget.PromptRows(kStreams), 16);
}

TEST(StepBudgetTest, OneSlowStepIsForgottenWithTheNext) {
  StepBudget budget(512);
  budget.Learn(kStreams, 128, 1000);
  budget.Learn(kStreams, budget.PromptRows(kStreams), 0.016);
  EXPECT_GT(budget.PromptRows(kStreams), 150);
}

TEST(StepBudgetTest, AFastMachineIsBoundedByItsSteps) {
  StepBudget budget(512);
  budget.Learn(kStreams, 256, 1e-6);
  EXPECT_EQ(budget.PromptRows(kStreams), 512);
  budget.Learn(kStreams, 0, 0.1);
  budget.Learn(kStreams, 256, 0.09);  // less than streams alone took: nothing is known of rows
  EXPECT_EQ(budget.PromptRows(kStreams), 512);
}

// A step's fixed cost weighs more on few rows: the bound must settle, not swing or stay low.
TEST(StepBudgetTest, ItSettlesWhereStepsHaveAFixedCost) {
  StepBudget budget(512);
  budget.Learn(kStreams, 16, 1000);
  int rows = 0;
  for (int step = 0; step < 40; ++step) {
    rows = budget.PromptRows(kStreams);
    budget.Learn(kStreams, rows, 0.05 + rows * 0.001);
  }
  EXPECT_LT(0.05 + rows * 0.001, kStallSeconds);
  EXPECT_GT(rows, 100);
}

}  // namespace
}  // namespace swiftkv
