// SPDX-License-Identifier: Apache-2.0
// Implements places and reservations.
#include "engine/step_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/byte_size.h"
#include "base/check.h"
#include "engine/forgetting_progress.h"
#include "engine/sampling_stage.h"

namespace swiftkv {
namespace {

// A choice that found no room is looked at again after so many steps: most of them give none back.
constexpr std::uint64_t kRetrySteps = 8;
// Rows of a step whose logits all are wanted: those of 250,000 words take a MB each.
constexpr int kTellingRows = 32;

// How many of the last of `rows` rows of a choice are wanted for their logits: a row tells the
// token after it.
int WantedOutputs(const Seat& seat, int rows) {
  const ActiveChoice& choice = *seat.choice;
  const std::size_t end = choice.computed + static_cast<std::size_t>(rows);
  if (!seat.request->tells_prompt()) return end == choice.tokens.size() ? 1 : 0;
  const std::size_t told = std::max<std::size_t>(seat.request->told_prompt, 1) - 1;
  const std::size_t first = std::max(choice.computed, told);
  return end > first ? static_cast<int>(end - first) : 0;
}

}  // namespace

bool StepPlanner::IsAlone(std::size_t index) const {
  const std::span<const Candidate> candidates = roster_->candidates();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i != index && candidates[i].running) return false;
  }
  return true;
}

Admission StepPlanner::Judge(std::size_t waiting) const {
  const Room room = {.places = max_places_, .available_bytes = roster_->AvailableBytes()};
  return JudgeAdmission(roster_->candidates(), waiting, room);
}

bool StepPlanner::IsOvercommitted() const {
  std::uint64_t promised = 0;
  for (const Candidate& candidate : roster_->candidates()) {
    if (candidate.running) promised += candidate.bytes_to_come;
  }
  return promised > roster_->AvailableBytes();
}

bool StepPlanner::GivePlace(std::size_t waiting) {
  // What was tried lately holds those behind it, but never for a reader's sake.
  if (roster_->candidates()[waiting].paused) return true;
  ActiveChoice& choice = *roster_->seat(waiting).choice;
  const bool tried_lately =
      step_ < choice.retry_step && choice.retry_ended == roster_->ended_choices();
  if (tried_lately && roster_->somebody_goes_on()) return false;
  // As if all of it were in the cache: whoever gets no place even so need not be looked up.
  Admission admission = Judge(waiting);
  if (admission.verdict == AdmissionVerdict::kStop) return false;
  if (admission.verdict == AdmissionVerdict::kPassOver) return true;
  roster_->LookUp(waiting);
  while ((admission = Judge(waiting)).verdict == AdmissionVerdict::kPreempt) {
    roster_->Preempt(admission.victim);
  }
  if (admission.verdict == AdmissionVerdict::kPassOver) return true;
  if (admission.verdict == AdmissionVerdict::kAdmit && TakePlace(waiting)) return true;
  choice.retry_step = step_ + kRetrySteps;
  choice.retry_ended = roster_->ended_choices();
  return false;
}

// Blocks that nobody used were counted both as to be evicted and as found: whether those and the
// rest fit shows once they are taken.
bool StepPlanner::TakePlace(std::size_t waiting) {
  const Status placed = roster_->Place(waiting);
  const bool alone = IsAlone(waiting);
  if (placed.ok() && (alone || !IsOvercommitted())) {
    roster_->Confirm(waiting);
    return true;
  }
  if (placed.ok()) {
    roster_->Withdraw(waiting);
  } else if (alone) {
    EndForMemory(roster_->seat(waiting));
  }
  return false;
}

void StepPlanner::GivePlaces() {
  const std::span<const Candidate> candidates = roster_->candidates();
  std::vector<std::size_t> waiting;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].running) waiting.push_back(i);
  }
  std::sort(waiting.begin(), waiting.end(), [&candidates](std::size_t a, std::size_t b) {
    return GoesBefore(candidates[a], candidates[b]);
  });
  for (const std::size_t i : waiting) {
    if (!GivePlace(i)) return;
  }
}

// The first token that finds no room ends a reply; a prompt without room for itself and one token
// of the reply never had a chance.
void StepPlanner::EndForMemory(const Seat& seat) {
  ActiveRequest& request = *seat.request;
  if (seat.choice->tokens.size() > request.prompt_tokens()) {
    TellEnd(&request, seat.choice, FinishReason::kLength, LengthLimit::kMemory);
    roster_->EndChoice(seat);
    return;
  }
  const bool reserves = request.reserved_tokens > 0;
  const std::int64_t tokens =
      reserves ? request.reserved_tokens : static_cast<std::int64_t>(request.prompt_tokens());
  roster_->Fail(&request, Status::ResourceExhausted(fmt::format(
                              "the {} {} do not fit into the KV memory, even alone; "
                              "they need {} and what describes them, the limit is {}",
                              tokens, reserves ? "reserved slots" : "tokens of the prompt",
                              FormatByteSize(reserves ? request.footprint.ReservedBytes(tokens)
                                                      : request.footprint.PageBytes(tokens)),
                              FormatByteSize(cache_->Balance().limit_bytes))));
}

bool StepPlanner::TryReserve(SequenceId sequence, int rows) {
  const auto start = std::chrono::steady_clock::now();
  const bool reserved = cache_->Reserve(sequence, rows).ok();
  const auto took = std::chrono::steady_clock::now() - start;
  reserving_seconds_ += std::chrono::duration<double>(took).count();
  return reserved;
}

int StepPlanner::Reserve(std::size_t index, int rows) {
  const Seat seat = roster_->seat(index);
  for (;;) {
    if (TryReserve(*seat.choice->sequence, rows)) return rows;
    if (const auto victim = ChooseVictim(roster_->candidates(), index)) {
      roster_->Preempt(*victim);
    } else if (!IsAlone(index)) {
      seat.choice->stalled = true;
      return 0;
    } else if (rows > 1) {
      rows /= 2;
    } else {
      EndForMemory(seat);
      return 0;
    }
  }
}

void StepPlanner::AddSlice(std::size_t index, int rows) {
  const Seat& seat = roster_->seat(index);
  ActiveChoice& choice = *seat.choice;
  const auto first = choice.tokens.begin() + static_cast<std::ptrdiff_t>(choice.computed);
  PlannedSlice slice;
  slice.request = seat.request->id;
  slice.rows = {.sequence = *choice.sequence,
                .first_position = static_cast<std::int64_t>(choice.computed),
                .first_row = static_cast<int>(plan_.tokens.size()),
                .num_rows = rows,
                .num_outputs = WantedOutputs(seat, rows),
                .queries = QueriesOf(*seat.request, &choice)};
  slice.is_prefill = choice.computed < seat.request->prompt_tokens();
  slice.allowed = seat.request->scope.allowed;
  plan_.tokens.insert(plan_.tokens.end(), first, first + rows);
  plan_.slices.push_back(slice);
  seats_.push_back(seat);
  choice.last_step = step_;
  choice.stalled = false;
}

void StepPlanner::ShareOut() {
  const std::span<const Candidate> candidates = roster_->candidates();
  streams_ = std::any_of(candidates.begin(), candidates.end(), IsStream);
  std::vector<RowShare> shares =
      ShareRows(candidates, {.all = max_rows_, .of_prompts = budget_.PromptRows(streams_)});
  // Who goes first reserves first, whatever the order of the rows.
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return GoesBefore(candidates[shares[a].candidate], candidates[shares[b].candidate]);
  });
  for (const std::size_t i : order) {
    RowShare& share = shares[i];
    const bool has_place = candidates[share.candidate].running;
    if (roster_->seat(share.candidate).request->tells_prompt()) {
      share.rows = std::min(share.rows, kTellingRows);
    }
    share.rows = has_place ? Reserve(share.candidate, share.rows) : 0;
  }
  prompt_rows_ = 0;
  for (const RowShare& share : shares) {
    if (share.rows == 0) continue;
    if (!IsStream(candidates[share.candidate])) prompt_rows_ += share.rows;
    AddSlice(share.candidate, share.rows);
  }
}

const StepPlan& StepPlanner::Plan() {
  ++step_;
  plan_ = StepPlan{};
  seats_.clear();
  std::uint64_t ended = 0;
  do {  // again where somebody ended for want of memory: others may have a place now
    ended = roster_->ended_choices();
    roster_->Collect();
    GivePlaces();
    ShareOut();
  } while (plan_.empty() && ended != roster_->ended_choices());
  return plan_;
}

void StepPlanner::TakeBack() {
  for (const Seat& seat : seats_) {
    if (!seat.choice->sequence) continue;
    const SequenceId sequence = *seat.choice->sequence;
    SKV_CHECK(cache_->Truncate(sequence, cache_->Length(sequence)).ok(),
              "cutting nothing off works");
  }
}

}  // namespace swiftkv
