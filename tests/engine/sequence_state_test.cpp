// SPDX-License-Identifier: Apache-2.0
// Tests how a request's tokens are cut into steps.
#include "engine/sequence_state.h"

#include <gtest/gtest.h>

#include <numeric>

namespace swiftkv {
namespace {

SequenceState StateOf(std::size_t prompt, std::size_t reply, std::size_t computed) {
  SequenceState state;
  state.request = RequestId{7};
  state.sequence = SequenceId{3};
  state.tokens.resize(prompt + reply);
  std::iota(state.tokens.begin(), state.tokens.end(), 100);
  state.prompt_tokens = prompt;
  state.computed = computed;
  state.allowed = Quality::kNear;
  return state;
}

TEST(PlanStepTest, ChunksCoverThePromptOnceAndOnlyTheLastWantsLogits) {
  SequenceState state = StateOf(40, 0, 5);
  std::vector<TokenId> seen;
  for (const int rows : {16, 16, 3}) {
    const StepPlan plan = PlanStep(state, 16);
    ASSERT_EQ(plan.slices.size(), 1U);
    const PlannedSlice& slice = plan.slices.front();
    EXPECT_EQ(slice.request, RequestId{7});
    EXPECT_EQ(slice.rows.sequence, SequenceId{3});
    EXPECT_EQ(slice.rows.first_position, static_cast<std::int64_t>(state.computed));
    EXPECT_EQ(slice.rows.first_row, 0);
    EXPECT_EQ(slice.rows.num_rows, rows);
    EXPECT_EQ(slice.rows.num_outputs, rows == 3 ? 1 : 0);
    EXPECT_TRUE(slice.is_prefill);
    EXPECT_EQ(slice.allowed, Quality::kNear);
    seen.insert(seen.end(), plan.tokens.begin(), plan.tokens.end());
    state.computed += plan.tokens.size();
  }
  EXPECT_EQ(seen, std::vector<TokenId>(state.tokens.begin() + 5, state.tokens.end()));
  EXPECT_TRUE(PlanStep(state, 16).empty());
}

TEST(PlanStepTest, DecodingComputesTheLastSampledToken) {
  const SequenceState state = StateOf(40, 3, 42);
  const StepPlan plan = PlanStep(state, 16);
  ASSERT_EQ(plan.slices.size(), 1U);
  EXPECT_FALSE(plan.slices.front().is_prefill);
  EXPECT_EQ(plan.slices.front().rows.num_outputs, 1);
  EXPECT_EQ(plan.tokens, std::vector<TokenId>{142});
}

}  // namespace
}  // namespace swiftkv
