// SPDX-License-Identifier: Apache-2.0
// Tests the rules of scheduling on plain data: places, victims, rows.
#include "engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swiftkv {
namespace {

using testing::ElementsAre;

constexpr Room kAmple = {.places = 64, .available_bytes = 1 << 20};

Candidate Waiting(std::uint64_t arrival, std::int64_t tokens = 32) {
  Candidate candidate;
  candidate.arrival = arrival;
  candidate.tokens = tokens;
  candidate.bytes_to_come = static_cast<std::uint64_t>(tokens);
  return candidate;
}

// In the cache with `computed` tokens, one more to compute.
Candidate Running(std::uint64_t arrival, std::int64_t computed) {
  Candidate candidate;
  candidate.arrival = arrival;
  candidate.running = true;
  candidate.tokens = computed + 1;
  candidate.computed = computed;
  candidate.recompute_tokens = computed;
  candidate.held_bytes = static_cast<std::uint64_t>(computed);
  return candidate;
}

// In the cache with `computed` of `tokens`.
Candidate Prompt(std::uint64_t arrival, std::int64_t computed, std::int64_t tokens) {
  Candidate candidate = Running(arrival, computed);
  candidate.tokens = tokens;
  return candidate;
}

std::vector<std::pair<std::size_t, int>> Shares(const std::vector<Candidate>& candidates,
                                                int max_rows) {
  std::vector<std::pair<std::size_t, int>> shares;
  for (const RowShare& share : ShareRows(candidates, {max_rows, max_rows})) {
    shares.emplace_back(share.candidate, share.rows);
  }
  return shares;
}

using Share = std::pair<std::size_t, int>;

TEST(SchedulerTest, PriorityThenArrivalThenIndexMakesTheOrder) {
  Candidate low = Waiting(1);
  low.priority = -1;
  Candidate second_choice = Waiting(2);
  second_choice.index = 1;
  EXPECT_TRUE(GoesBefore(Waiting(2), Waiting(3)));
  EXPECT_TRUE(GoesBefore(Waiting(3), low));
  EXPECT_TRUE(GoesBefore(Waiting(2), second_choice));
  EXPECT_TRUE(GoesBefore(second_choice, Waiting(3)));
  EXPECT_FALSE(GoesBefore(low, low));
}

TEST(SchedulerTest, DecodesGoFirstAndPromptsShareTheRestInOrder) {
  const std::vector<Candidate> candidates = {Prompt(1, 0, 100), Running(2, 50), Prompt(3, 32, 300),
                                             Running(4, 9), Prompt(5, 0, 50)};
  EXPECT_THAT(Shares(candidates, 256),
              ElementsAre(Share{1, 1}, Share{3, 1}, Share{0, 100}, Share{2, 144}, Share{4, 10}));
}

TEST(SchedulerTest, ChunksEndWithABlockWhereTheyHoldABlocksEnd) {
  EXPECT_THAT(Shares({Prompt(1, 0, 1000)}, 100), ElementsAre(Share{0, 96}));
  EXPECT_THAT(Shares({Prompt(1, 96, 1000)}, 100), ElementsAre(Share{0, 96}));
  EXPECT_THAT(Shares({Prompt(1, 90, 1000)}, 100), ElementsAre(Share{0, 86}));
  EXPECT_THAT(Shares({Prompt(1, 960, 1000)}, 100), ElementsAre(Share{0, 40}));
  EXPECT_THAT(Shares({Prompt(1, 0, 1000)}, 7), ElementsAre(Share{0, 7}));
  EXPECT_THAT(Shares({Prompt(1, 14, 1000)}, 7), ElementsAre(Share{0, 2}));
}

TEST(SchedulerTest, WithoutRowsForAllThoseGoFirstThatWaitedLongest) {
  std::vector<Candidate> candidates = {Running(1, 10), Running(2, 10), Running(3, 10),
                                       Prompt(4, 0, 90)};
  for (Candidate& candidate : candidates) candidate.last_step = 7;
  candidates[1].last_step = 6;
  candidates[3].last_step = 5;
  EXPECT_THAT(Shares(candidates, 2), ElementsAre(Share{3, 1}, Share{1, 1}));
}

TEST(SchedulerTest, WhoIsPausedFollowsOrWaitsGetsNoRows) {
  std::vector<Candidate> candidates = {Running(1, 10), Prompt(2, 0, 50), Waiting(3),
                                       Running(4, 10)};
  candidates[0].paused = true;
  candidates[1].follows = true;
  EXPECT_THAT(Shares(candidates, 64), ElementsAre(Share{3, 1}));
}

TEST(SchedulerTest, APlaceNeedsRoomForAllThatIsRunningToo) {
  std::vector<Candidate> candidates = {Running(1, 10), Waiting(2, 60)};
  candidates[0].bytes_to_come = 40;
  const Room exact = {.places = 2, .available_bytes = 100};
  EXPECT_EQ(JudgeAdmission(candidates, 1, exact).verdict, AdmissionVerdict::kAdmit);
  const Room little = {.places = 2, .available_bytes = 99};
  EXPECT_EQ(JudgeAdmission(candidates, 1, little).verdict, AdmissionVerdict::kStop);
  const Room few = {.places = 1, .available_bytes = 1000};
  EXPECT_EQ(JudgeAdmission(candidates, 1, few).verdict, AdmissionVerdict::kStop);
  candidates[1].places = 4;
  EXPECT_EQ(JudgeAdmission(candidates, 1, exact).verdict, AdmissionVerdict::kStop);
}

TEST(SchedulerTest, WhoeverIsAloneIsAdmittedToTry) {
  const std::vector<Candidate> candidates = {Waiting(1, 1 << 30), Waiting(2)};
  EXPECT_EQ(JudgeAdmission(candidates, 0, {.places = 1, .available_bytes = 0}).verdict,
            AdmissionVerdict::kAdmit);
}

TEST(SchedulerTest, APreemptedChoiceHoldsTheQueueUntilItMayComeBack) {
  std::vector<Candidate> candidates = {Running(1, 10), Waiting(2)};
  candidates[1].barred = true;
  candidates[0].bytes_to_grow = kAmple.available_bytes;
  EXPECT_EQ(JudgeAdmission(candidates, 1, kAmple).verdict, AdmissionVerdict::kStop);
  candidates[1].barred = false;
  EXPECT_EQ(JudgeAdmission(candidates, 1, kAmple).verdict, AdmissionVerdict::kAdmit);
}

TEST(SchedulerTest, APreemptedChoiceComesBackWhereAllHaveRoomToGrowForLong) {
  std::vector<Candidate> candidates = {Running(1, 10), Waiting(2, 60)};
  candidates[0].bytes_to_come = 40;
  candidates[0].bytes_to_grow = 64;
  candidates[1].bytes_to_grow = 64;
  candidates[1].barred = true;
  const Room ample = {.places = 2, .available_bytes = 60 + 40 + 2 * 64};
  EXPECT_EQ(JudgeAdmission(candidates, 1, ample).verdict, AdmissionVerdict::kAdmit);
  Room little = ample;
  --little.available_bytes;
  EXPECT_EQ(JudgeAdmission(candidates, 1, little).verdict, AdmissionVerdict::kStop);
  candidates[0].paused = true;
  EXPECT_EQ(JudgeAdmission(candidates, 1, little).verdict, AdmissionVerdict::kStop)
      << "for its sake nobody loses a place again";
  candidates[1].barred = false;
  EXPECT_EQ(JudgeAdmission(candidates, 1, little).verdict, AdmissionVerdict::kAdmit)
      << "others need no such room";
}

TEST(SchedulerTest, WhoLostItsPlaceAndIsNotReadHoldsNobodyUp) {
  std::vector<Candidate> candidates = {Waiting(1), Running(2, 10), Waiting(3)};
  candidates[0].barred = true;
  candidates[0].paused = true;
  EXPECT_EQ(JudgeAdmission(candidates, 0, kAmple).verdict, AdmissionVerdict::kPassOver);
  EXPECT_EQ(JudgeAdmission(candidates, 2, kAmple).verdict, AdmissionVerdict::kAdmit);
}

TEST(SchedulerTest, WhoWaitsForAnothersBlocksLetsOthersPass) {
  std::vector<Candidate> candidates = {Running(1, 10), Waiting(2)};
  candidates[1].follows = true;
  EXPECT_EQ(JudgeAdmission(candidates, 1, kAmple).verdict, AdmissionVerdict::kPassOver);
}

TEST(SchedulerTest, EqualsWaitButHigherPriorityTakesThePlaceOfTheCheapestBelow) {
  std::vector<Candidate> candidates = {Running(1, 90), Running(2, 30), Running(3, 60), Waiting(4)};
  const Room full = {.places = 3, .available_bytes = 1000};
  EXPECT_EQ(JudgeAdmission(candidates, 3, full).verdict, AdmissionVerdict::kStop);
  candidates[3].priority = 1;
  const Admission admission = JudgeAdmission(candidates, 3, full);
  EXPECT_EQ(admission.verdict, AdmissionVerdict::kPreempt);
  EXPECT_EQ(admission.victim, 1U);
  candidates[2].priority = -1;
  EXPECT_EQ(JudgeAdmission(candidates, 3, full).victim, 2U) << "the lowest priority first";
}

TEST(SchedulerTest, NobodyIsPreemptedWhereThatWouldNotMakeRoom) {
  std::vector<Candidate> candidates = {Running(1, 90), Running(2, 30), Waiting(3, 200)};
  candidates[0].priority = 1;
  candidates[2].priority = 1;
  const Room room = {.places = 8, .available_bytes = 150};
  EXPECT_EQ(JudgeAdmission(candidates, 2, room).verdict, AdmissionVerdict::kStop);
  candidates[2].bytes_to_come = 180;
  EXPECT_EQ(JudgeAdmission(candidates, 2, room).verdict, AdmissionVerdict::kPreempt);
}

TEST(SchedulerTest, WhoNeverReadsHoldsNobodyUpWhateverTheEstimatesSay) {
  Candidate unread = Running(1, 100);
  unread.paused = true;
  const Room little = {.places = 64, .available_bytes = 10};
  const std::vector<Candidate> both = {unread, Waiting(2, 500)};
  const Admission admission = JudgeAdmission(both, 1, little);
  EXPECT_EQ(admission.verdict, AdmissionVerdict::kPreempt);
  EXPECT_EQ(admission.victim, 0U);
  const std::vector<Candidate> with_a_reader = {unread, Running(2, 100), Waiting(3, 500)};
  EXPECT_EQ(JudgeAdmission(with_a_reader, 2, little).verdict, AdmissionVerdict::kStop);
}

TEST(SchedulerTest, VictimsGoAfterTheNeedyOneAndCostLeast) {
  std::vector<Candidate> candidates = {Running(1, 5), Running(2, 50), Running(3, 40),
                                       Running(4, 40), Waiting(5)};
  EXPECT_EQ(ChooseVictim(candidates, 1), 3U) << "of equal costs the last arrival";
  candidates[2].recompute_tokens = 1;
  EXPECT_EQ(ChooseVictim(candidates, 1), 2U);
  EXPECT_EQ(ChooseVictim(candidates, 3), std::nullopt) << "nobody runs behind the last";
  candidates[0].paused = true;
  EXPECT_EQ(ChooseVictim(candidates, 3), 0U) << "whose reader is behind gives way to all";
}

TEST(SchedulerTest, WhoHasReservedSlotsGivesWayToNobody) {
  std::vector<Candidate> candidates = {Running(1, 5), Running(2, 50), Waiting(3)};
  candidates[0].paused = true;
  for (Candidate& candidate : candidates) candidate.reserved = true;
  EXPECT_EQ(ChooseVictim(candidates, 1), std::nullopt);
  candidates[2].priority = 1;
  const Room full = {.places = 2, .available_bytes = 1000};
  EXPECT_EQ(JudgeAdmission(candidates, 2, full).verdict, AdmissionVerdict::kStop);
  candidates[1].reserved = false;
  EXPECT_EQ(JudgeAdmission(candidates, 2, full).victim, 1U);
}

}  // namespace
}  // namespace swiftkv
