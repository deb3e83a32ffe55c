// SPDX-License-Identifier: Apache-2.0
// Gives choices their places in the cache, with what is found there, and takes them away.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "engine/forgetting_progress.h"
#include "engine/roster.h"

namespace swiftkv {

// Takes what is findable beyond what the choice holds.
void Roster::Adopt(const Seat& seat) {
  if (seat.request->tells_prompt()) return NoteQueryOrigin(seat);
  ActiveChoice& choice = *seat.choice;
  const std::size_t before = choice.adopted;
  const bool compressed = TakeCompressed(cache_, seat.request, &choice);
  if (compressed) choice.adopted = choice.computed;
  if (!compressed) choice.query_origin = FindQueryOrigin(*cache_, *seat.request, choice);
  NoteQueryOrigin(seat);
  const std::span<const TokenId> tokens =
      AdoptableTokens(*seat.request, choice, choice.query_origin);
  Result<PrefixHit> hit = PrefixHit{.end = PrefixEnd::kNotShared};
  if (tokens.size() > choice.computed) hit = cache_->AdoptPrefix(*choice.sequence, tokens);
  if (!hit.ok() && !compressed) return;  // no room to describe it: computed instead
  const auto reached = static_cast<std::size_t>(cache_->Length(*choice.sequence));
  choice.adopted += reached - choice.computed;
  choice.computed = reached;
  RequestUsage& usage = seat.request->usage;
  // What a request computed itself and lost is not counted when it is found again.
  if (usage.preemptions > 0 || choice.index != 0) return;
  const std::size_t taken = choice.adopted - std::min(before, choice.adopted);
  usage.cached_tokens += static_cast<std::int64_t>(taken);
  if (compressed) usage.kv.compressed_tokens = choice.forgetting.last;
  if (hit.ok()) {
    usage.prefix_end = hit->end;
    usage.prefix_differs_at = hit->differs_at;
  }
  if (!seat.request->left_queue) return;
  cached_tokens_ += taken;
  recorder_->FoundMore(*seat.request, taken);
}

// What was not found to be otherwise is own.
void Roster::NoteQueryOrigin(const Seat& seat) {
  if (seat.request->forgetting == nullptr || !seat.request->forgetting->needs_statistics()) return;
  const bool is_model = seat.choice->query_origin == QueryOrigin::kModel;
  seat.request->usage.kv.query_statistics = is_model ? "model" : "own";
}

Status Roster::Place(std::size_t index) {
  const Seat& seat = seats_[index];
  ActiveChoice& choice = *seat.choice;
  SKV_CHECK(choice.phase == ChoicePhase::kWaiting);
  PrefixScope scope = seat.request->scope;
  scope.counts = choice.index == 0 && choice.last_step == 0;  // a request is counted once
  SKV_ASSIGN_OR_RETURN(choice.sequence, cache_->CreateSequence(seat.request->format, scope));
  const Status reserved =
      cache_->Reserve(*choice.sequence, static_cast<int>(seat.request->reserved_tokens));
  if (!reserved.ok()) {
    GiveBack(&choice);
    return reserved;
  }
  choice.phase = ChoicePhase::kRunning;
  choice.computed = 0;
  const std::size_t shared = std::exchange(choice.adopted, 0);
  choice.stalled = false;
  BeginForgetting(*seat.request, &choice);
  if (seat.request->usage.preemptions == 0) seat.request->usage.cached_tokens = 0;
  Adopt(seat);
  // What it finds again of its own it may have to compute again, should it lose its place.
  if (choice.was_preempted) choice.adopted = std::min(choice.adopted, shared);
  candidates_[index] = Describe(*seat.request, choice);
  return Status::Ok();
}

void Roster::Confirm(std::size_t index) {
  const Seat& seat = seats_[index];
  seat.choice->was_preempted = false;
  if (!seat.request->left_queue) {
    RequestUsage& usage = seat.request->usage;
    usage.queue_seconds = seat.request->SecondsSinceSubmit();
    queue_seconds_ += usage.queue_seconds;
    prompt_tokens_ += seat.request->prompt_tokens();
    cached_tokens_ += static_cast<std::uint64_t>(usage.cached_tokens);
    recorder_->GotFirstPlace(*seat.request);
  }
  LeaveQueue(seat.request);
}

void Roster::Withdraw(std::size_t index) {
  ActiveChoice& choice = *seats_[index].choice;
  GiveBack(&choice);
  BeginForgetting(*seats_[index].request, &choice);
  choice.phase = ChoicePhase::kWaiting;
  choice.computed = 0;
  if (!choice.was_preempted) choice.query_origin = QueryOrigin::kUndecided;
}

void Roster::Preempt(std::size_t index) {
  const Seat& seat = seats_[index];
  ActiveChoice& choice = *seat.choice;
  SKV_CHECK(choice.phase == ChoicePhase::kRunning);
  GiveBack(&choice);
  choice.phase = ChoicePhase::kWaiting;
  BeginForgetting(*seat.request, &choice);
  choice.computed = 0;
  choice.until = 0;
  choice.awaits_segment = false;
  choice.was_preempted = true;
  if (choice.query_origin == QueryOrigin::kUndecided) choice.query_origin = QueryOrigin::kOwn;
  choice.ended_then = ended_choices_;
  ++seat.request->usage.preemptions;
  ++preemptions_;
  candidates_[index].barred = true;
}

}  // namespace swiftkv
