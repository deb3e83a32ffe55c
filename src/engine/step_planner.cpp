// SPDX-License-Identifier: Apache-2.0
// Implements places and reservations.
#include "engine/step_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/byte_size.h"
#include "base/check.h"
#include "engine/sampling_stage.h"

namespace swiftkv {

bool StepPlanner::IsAlone(std::size_t index) const {
  const std::span<const Candidate> candidates = roster_->candidates();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i != index && candidates[i].running) return false;
  }
  return true;
}

bool StepPlanner::GivePlace(std::size_t waiting) {
  for (;;) {
    const Room room = {.places = max_places_, .available_bytes = roster_->AvailableBytes()};
    const Admission admission = JudgeAdmission(roster_->candidates(), waiting, room);
    switch (admission.verdict) {
      case AdmissionVerdict::kPassOver:
        return true;
      case AdmissionVerdict::kStop:
        return false;
      case AdmissionVerdict::kPreempt:
        roster_->Preempt(admission.victim);
        continue;
      case AdmissionVerdict::kAdmit: {
        const Status placed = roster_->Place(waiting);
        if (placed.ok()) return true;
        if (IsAlone(waiting)) EndForMemory(roster_->seat(waiting));
        return false;
      }
    }
  }
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
                              FormatByteSize(request.footprint.PageBytes(tokens)),
                              FormatByteSize(cache_->Balance().limit_bytes))));
}

int StepPlanner::Reserve(std::size_t index, int rows) {
  const Seat seat = roster_->seat(index);
  for (;;) {
    if (cache_->Reserve(*seat.choice->sequence, rows).ok()) return rows;
    if (const auto victim = ChooseVictim(roster_->candidates(), index)) {
      roster_->Preempt(*victim);
    } else if (!IsAlone(index)) {
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
  slice.rows = {
      .sequence = *choice.sequence,
      .first_position = static_cast<std::int64_t>(choice.computed),
      .first_row = static_cast<int>(plan_.tokens.size()),
      .num_rows = rows,
      .num_outputs =
          choice.computed + static_cast<std::size_t>(rows) == choice.tokens.size() ? 1 : 0};
  slice.is_prefill = choice.computed < seat.request->prompt_tokens();
  slice.allowed = seat.request->allowed;
  plan_.tokens.insert(plan_.tokens.end(), first, first + rows);
  plan_.slices.push_back(slice);
  seats_.push_back(seat);
  choice.last_step = step_;
}

void StepPlanner::ShareOut() {
  const std::span<const Candidate> candidates = roster_->candidates();
  std::vector<RowShare> shares = ShareRows(candidates, max_rows_);
  // Who goes first reserves first, whatever the order of the rows.
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return GoesBefore(candidates[shares[a].candidate], candidates[shares[b].candidate]);
  });
  for (const std::size_t i : order) {
    RowShare& share = shares[i];
    const bool has_place = candidates[share.candidate].running;
    share.rows = has_place ? Reserve(share.candidate, share.rows) : 0;
  }
  for (const RowShare& share : shares) {
    if (share.rows > 0) AddSlice(share.candidate, share.rows);
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
