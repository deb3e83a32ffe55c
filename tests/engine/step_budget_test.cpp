// SPDX-License-Identifier: Apache-2.0
// Tests how many rows a step may have while replies are under way.
#include "engine/step_budget.h"

#include <gtest/gtest.h>

namespace swiftkv {
namespace {

TEST(StepBudgetTest, NobodyWhoWaitsLeavesStepsWhole) {
  StepBudget budget(512);
  EXPECT_EQ(budget.Rows(/*streams=*/false), 512);
  budget.Learn(512, 10);
  EXPECT_EQ(budget.Rows(/*streams=*/false), 512);
}

TEST(StepBudgetTest, BeforeAnythingIsKnownAQuarterIsTaken) {
  EXPECT_EQ(StepBudget(512).Rows(/*streams=*/true), 128);
  EXPECT_EQ(StepBudget(32).Rows(/*streams=*/true), 16);
  EXPECT_EQ(StepBudget(7).Rows(/*streams=*/true), 7);
}

TEST(StepBudgetTest, StepsAreAsLongAsTheStallAllows) {
  StepBudget budget(512);
  budget.Learn(128, 0.1);
  const int rows = budget.Rows(/*streams=*/true);
  EXPECT_GT(rows, 128);
  EXPECT_LT(rows * 0.1 / 128, kStallSeconds);
  budget.Learn(rows, 2 * kStallSeconds);
  EXPECT_LT(budget.Rows(/*streams=*/true), rows / 2);
}

TEST(StepBudgetTest, ASlowMachineStillComputesABlock) {
  StepBudget budget(512);
  budget.Learn(128, 1000);
  EXPECT_EQ(budget.Rows(/*streams=*/true), 16);
}

TEST(StepBudgetTest, AFastOneIsBoundedByItsSteps) {
  StepBudget budget(512);
  budget.Learn(256, 1e-6);
  EXPECT_EQ(budget.Rows(/*streams=*/true), 512);
}

TEST(StepBudgetTest, StepsWithoutAPromptTeachNothing) {
  StepBudget budget(512);
  budget.Learn(1, 1);
  EXPECT_EQ(budget.Rows(/*streams=*/true), 128);
}

// A step's fixed cost weighs more on few rows: the bound must settle, not swing.
TEST(StepBudgetTest, ItSettlesWhereStepsHaveAFixedCost) {
  StepBudget budget(512);
  int rows = 0;
  for (int step = 0; step < 20; ++step) {
    rows = budget.Rows(/*streams=*/true);
    budget.Learn(rows, 0.05 + rows * 0.001);
  }
  EXPECT_LT(0.05 + rows * 0.001, kStallSeconds);
  EXPECT_GT(rows, 100);
}

}  // namespace
}  // namespace swiftkv
