// SPDX-License-Identifier: Apache-2.0
// Tests that a step either happens as planned or changes no length.
#include "engine/executor.h"

#include <gtest/gtest.h>

#include "engine/tiny_session.h"

namespace swiftkv {
namespace {

PlannedSlice SliceOf(SequenceId sequence, int first_row, int rows, int outputs) {
  PlannedSlice slice;
  slice.rows = {.sequence = sequence,
                .first_position = 0,
                .first_row = first_row,
                .num_rows = rows,
                .num_outputs = outputs};
  return slice;
}

TEST(ExecutorTest, SlicesOfSeveralSequencesGiveTheLogitsThatEachGivesAlone) {
  TinySession tiny = MakeTinySession({});
  Executor executor(tiny.model.get(), tiny.cache.get());
  const std::vector<TokenId> first = TinyPrompt(9, 1);
  const std::vector<TokenId> second = TinyPrompt(20, 2);
  const auto vocabulary = static_cast<std::size_t>(tiny.vocabulary->size());

  std::vector<float> alone;
  for (const std::vector<TokenId>& tokens : {first, second}) {
    StepPlan plan;
    plan.tokens = tokens;
    const SequenceId sequence = tiny.cache->CreateSequence().value();
    plan.slices.push_back(SliceOf(sequence, 0, static_cast<int>(tokens.size()), 1));
    const std::span<const float> logits = executor.Execute(plan, nullptr).value();
    ASSERT_EQ(logits.size(), vocabulary);
    alone.insert(alone.end(), logits.begin(), logits.end());
  }

  StepPlan both;
  both.tokens = Join(first, second);
  const SequenceId a = tiny.cache->CreateSequence().value();
  const SequenceId b = tiny.cache->CreateSequence().value();
  both.slices = {SliceOf(a, 0, 9, 1), SliceOf(b, 9, 20, 1)};
  const std::span<const float> logits = executor.Execute(both, nullptr).value();
  ASSERT_EQ(logits.size(), alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i) ASSERT_NEAR(logits[i], alone[i], 1e-4);
  EXPECT_EQ(tiny.cache->Length(a), 9);
  EXPECT_EQ(tiny.cache->Length(b), 20);
}

TEST(ExecutorTest, AStepWithoutRoomChangesNoLength) {
  TinySession tiny = MakeTinySession({.cache_bytes = 64 << 10});
  Executor executor(tiny.model.get(), tiny.cache.get());
  StepPlan plan;
  plan.tokens = Join(TinyPrompt(5), TinyPrompt(200, 2));
  const SequenceId a = tiny.cache->CreateSequence().value();
  const SequenceId b = tiny.cache->CreateSequence().value();
  plan.slices = {SliceOf(a, 0, 5, 1), SliceOf(b, 5, 200, 1)};
  EXPECT_EQ(executor.Execute(plan, nullptr).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(tiny.cache->Length(a), 0);
  EXPECT_EQ(tiny.cache->Length(b), 0);
  tiny.cache->CheckInvariants();
}

}  // namespace
}  // namespace swiftkv
