// SPDX-License-Identifier: Apache-2.0
// Tests at which lengths sequences are compacted, whatever their prompts and budgets are.
#include "engine/compaction_schedule.h"

#include <gtest/gtest.h>

#include "swiftkv/page_codec.h"

namespace swiftkv {
namespace {

using When = CompactionSchedule::When;

constexpr CompactionSchedule kOnce = {
    .when = When::kWithinPrompt, .newest = 128, .shortest = 256, .ratio = 0.5};

TEST(CompactionScheduleTest, ALongPromptIsCompactedOnceAtABlocksEndBeforeItsNewestTokens) {
  for (std::int64_t prompt = 1; prompt < 40'000; prompt += prompt < 600 ? 1 : 97) {
    const std::int64_t at = kOnce.NextAfter(prompt, 0);
    if (prompt < 256) {
      EXPECT_EQ(at, 0) << prompt;
      continue;
    }
    EXPECT_GT(at, 0) << prompt;
    EXPECT_EQ(at % kPageTokens, 0);
    EXPECT_LE(at, prompt - 128);
    EXPECT_GT(at, prompt - 128 - std::max<std::int64_t>(kPageTokens, prompt / 32)) << prompt;
    EXPECT_EQ(kOnce.NextAfter(prompt, at), 0) << "and never again";
  }
}

TEST(CompactionScheduleTest, QuestionsBehindADocumentMostlyMeetAtOneLength) {
  int together = 0;
  constexpr int kDocuments = 1000;
  constexpr int kQuestion = 32;
  for (int document = 4200; document < 4200 + kDocuments; ++document) {
    const bool alike = kOnce.NextAfter(document, 0) == kOnce.NextAfter(document + kQuestion, 0);
    together += alike ? 1 : 0;
  }
  EXPECT_GE(together, kDocuments * 7 / 10);
}

TEST(CompactionScheduleTest, APolicyThatLooksAtTheQuestionWaitsForAllOfIt) {
  const CompactionSchedule schedule = {
      .when = When::kAfterPrompt, .newest = 128, .shortest = 256, .ratio = 0.5};
  EXPECT_EQ(schedule.NextAfter(255, 0), 0);
  EXPECT_EQ(schedule.NextAfter(256, 0), 256);
  EXPECT_EQ(schedule.NextAfter(1001, 0), 1001);
  EXPECT_EQ(schedule.NextAfter(1001, 1001), 0);
}

// Walks a sequence through its compactions and holds what it holds to the bounds.
TEST(CompactionScheduleTest, ABudgetIsNeverPassedInAReplyAndByAStretchInAPrompt) {
  for (const std::int64_t budget : {176, 192, 256, 1024, 4096}) {
    CompactionSchedule schedule = {.when = When::kAtBudget, .newest = 128};
    schedule.budget = budget;
    schedule.target = std::max<std::int64_t>(176, budget - std::max<std::int64_t>(16, budget / 8));
    for (const std::int64_t prompt : {1, 100, 176, 177, 511, 512, 513, 2000, 9000}) {
      std::int64_t last = 0;
      std::int64_t held = 0;  // at `last`
      int compactions = 0;
      for (std::int64_t next = schedule.NextAfter(prompt, 0); next < 12'000;
           next = schedule.NextAfter(prompt, last)) {
        if (next == last) break;  // a budget that leaves no room at all
        ASSERT_GT(next, last);
        const std::int64_t most = held + next - last;
        EXPECT_LE(most, schedule.MostHeld(prompt, next)) << budget << " " << prompt;
        if (last >= prompt) {
          EXPECT_EQ(most, held + budget - schedule.target);
        }
        last = next;
        held = schedule.HeldAfter(last);
        EXPECT_LE(held, budget);
        ++compactions;
      }
      EXPECT_GT(compactions, 0);
    }
  }
}

}  // namespace
}  // namespace swiftkv
