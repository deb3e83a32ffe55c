// SPDX-License-Identifier: Apache-2.0
// Implements what happens to requests between their arrival and their end.
#include "engine/roster.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "engine/sampling_stage.h"

namespace swiftkv {
namespace {

// Tokens that a choice is expected to grow by before another one ends: room for them is kept when
// places are given, so that a place is not taken back at once.
constexpr std::int64_t kGrowthTokens = 32;

std::int64_t GrowthOf(const ActiveRequest& request, const ActiveChoice& choice) {
  if (request.asked.max_tokens < 0) return kGrowthTokens;
  const auto reply = static_cast<std::int64_t>(choice.tokens.size() - request.prompt_tokens());
  return std::clamp<std::int64_t>(request.asked.max_tokens - reply, 0, kGrowthTokens);
}

bool HasEnded(const ActiveRequest& request) {
  return std::all_of(request.choices.begin(), request.choices.end(),
                     [](const ActiveChoice& c) { return c.phase == ChoicePhase::kDone; });
}

int UnbornChoices(const ActiveRequest& request) {
  return static_cast<int>(
      std::count_if(request.choices.begin(), request.choices.end(),
                    [](const ActiveChoice& c) { return c.phase == ChoicePhase::kUnborn; }));
}

}  // namespace

void Roster::Add(std::unique_ptr<ActiveRequest> request) {
  requests_.push_back(std::move(request));
}

ActiveRequest* Roster::Find(RequestId id) {
  for (const auto& request : requests_) {
    if (request->id == id && !HasEnded(*request)) return request.get();
  }
  return nullptr;
}

Candidate Roster::Describe(const ActiveRequest& request, const ActiveChoice& choice) const {
  Candidate candidate;
  candidate.priority = request.asked.priority;
  candidate.arrival = static_cast<std::uint64_t>(request.id);
  candidate.index = choice.index;
  candidate.running = choice.phase == ChoicePhase::kRunning;
  candidate.paused = !request.stream->HasRoom();
  candidate.places = 1 + (choice.index == 0 ? UnbornChoices(request) : 0);
  candidate.tokens = static_cast<std::int64_t>(choice.tokens.size());
  candidate.computed = static_cast<std::int64_t>(choice.computed);
  candidate.recompute_tokens = static_cast<std::int64_t>(choice.computed - choice.adopted);
  candidate.last_step = choice.last_step;
  candidate.reserved = request.reserved_tokens > 0;
  const KvFootprint& footprint = request.footprint;
  const std::uint64_t grown = footprint.PageBytes(
      candidate.reserved ? request.reserved_tokens : candidate.tokens + GrowthOf(request, choice));
  candidate.held_bytes = candidate.computed > 0 ? footprint.PageBytes(candidate.computed) : 0;
  if (candidate.reserved && candidate.running) candidate.held_bytes = grown;
  candidate.bytes_to_come = grown - candidate.held_bytes;
  // Each further choice copies the block that the prompt ends in, and grows by itself.
  const std::int64_t whole_blocks = candidate.tokens / kPageTokens * kPageTokens;
  const std::uint64_t shared = whole_blocks > 0 ? footprint.PageBytes(whole_blocks) : 0;
  candidate.bytes_to_come +=
      static_cast<std::uint64_t>(candidate.places - 1) *
      (footprint.PageBytes(candidate.tokens + GrowthOf(request, choice)) - shared);
  return candidate;
}

void Roster::Collect() {
  std::erase_if(requests_, [](const auto& request) { return HasEnded(*request); });
  candidates_.clear();
  seats_.clear();
  bool somebody_goes_on = false;
  for (const auto& request : requests_) {
    for (ActiveChoice& choice : request->choices) {
      if (choice.phase != ChoicePhase::kWaiting && choice.phase != ChoicePhase::kRunning) continue;
      candidates_.push_back(Describe(*request, choice));
      seats_.push_back({request.get(), &choice});
      somebody_goes_on |= candidates_.back().running && !candidates_.back().paused;
    }
  }
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    const ActiveChoice& choice = *seats_[i].choice;
    candidates_[i].barred =
        somebody_goes_on && choice.was_preempted && choice.ended_then == ended_choices_;
  }
}

std::uint64_t Roster::AvailableBytes() const {
  const KvBalance balance = cache_->Balance();
  return balance.limit_bytes - balance.mapped_bytes + balance.free_bytes;
}

void Roster::LeaveQueue(ActiveRequest* request) {
  if (request->left_queue) return;
  request->left_queue = true;
  inbox_->LeftQueue();
}

Status Roster::Place(std::size_t index) {
  const Seat& seat = seats_[index];
  ActiveChoice& choice = *seat.choice;
  SKV_CHECK(choice.phase == ChoicePhase::kWaiting);
  SKV_ASSIGN_OR_RETURN(choice.sequence, cache_->CreateSequence(seat.request->format));
  const Status reserved =
      cache_->Reserve(*choice.sequence, static_cast<int>(seat.request->reserved_tokens));
  if (!reserved.ok()) {
    GiveBack(&choice);
    return reserved;
  }
  choice.phase = ChoicePhase::kRunning;
  choice.was_preempted = false;
  choice.computed = 0;
  choice.adopted = 0;
  if (!seat.request->left_queue) {
    seat.request->usage.queue_seconds = seat.request->SecondsSinceSubmit();
    queue_seconds_ += seat.request->usage.queue_seconds;
    prompt_tokens_ += seat.request->prompt_tokens();
  }
  LeaveQueue(seat.request);
  candidates_[index].running = true;
  return Status::Ok();
}

void Roster::GiveBack(ActiveChoice* choice) {
  if (choice->sequence) cache_->Release(*choice->sequence);
  choice->sequence.reset();
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (seats_[i].choice == choice) candidates_[i].running = false;
  }
}

void Roster::Preempt(std::size_t index) {
  const Seat& seat = seats_[index];
  ActiveChoice& choice = *seat.choice;
  SKV_CHECK(choice.phase == ChoicePhase::kRunning);
  GiveBack(&choice);
  choice.phase = ChoicePhase::kWaiting;
  choice.computed = 0;
  choice.was_preempted = true;
  choice.ended_then = ended_choices_;
  ++seat.request->usage.preemptions;
  ++preemptions_;
  candidates_[index].barred = true;
}

void Roster::ForkChoices(ActiveRequest* request) {
  const ActiveChoice& first = request->choices[0];
  for (ActiveChoice& choice : request->choices) {
    if (choice.phase != ChoicePhase::kUnborn) continue;
    choice.tokens = request->asked.prompt;
    choice.phase = ChoicePhase::kWaiting;
    const Result<SequenceId> fork = cache_->Fork(*first.sequence);
    if (!fork.ok()) continue;
    choice.sequence = *fork;
    choice.phase = ChoicePhase::kRunning;
    choice.computed = first.computed;
    choice.adopted = first.computed;
    choice.last_step = first.last_step;
  }
}

void Roster::EndChoice(const Seat& seat) {
  GiveBack(seat.choice);
  seat.choice->phase = ChoicePhase::kDone;
  ++ended_choices_;
  if (HasEnded(*seat.request)) Close(seat.request, Status::Ok());
}

void Roster::Close(ActiveRequest* request, const Status& status) {
  LeaveQueue(request);
  ++ended_requests_;
  generated_tokens_ += static_cast<std::uint64_t>(request->usage.completion_tokens);
  request->usage.total_seconds = request->SecondsSinceSubmit();
  request->stream->Close(status, request->usage);
  inbox_->Ended();
}

void Roster::Cancel(ActiveRequest* request) {
  for (ActiveChoice& choice : request->choices) {
    if (choice.phase == ChoicePhase::kDone) continue;
    TellEnd(request, &choice, FinishReason::kCancelled, LengthLimit::kNone);
    EndChoice({request, &choice});
  }
}

void Roster::CancelAll() {
  for (const auto& request : requests_) Cancel(request.get());
}

void Roster::Fail(ActiveRequest* request, const Status& status) {
  for (ActiveChoice& choice : request->choices) {
    if (choice.phase == ChoicePhase::kDone) continue;
    GiveBack(&choice);
    choice.phase = ChoicePhase::kDone;
    ++ended_choices_;
  }
  Close(request, status);
}

void Roster::Report(EngineSnapshot* snapshot) const {
  snapshot->generated_tokens = generated_tokens_;
  for (const auto& request : requests_) {
    if (HasEnded(*request)) continue;
    snapshot->generated_tokens += static_cast<std::uint64_t>(request->usage.completion_tokens);
    for (const ActiveChoice& choice : request->choices) {
      snapshot->running += choice.phase == ChoicePhase::kRunning ? 1 : 0;
      snapshot->waiting += choice.phase == ChoicePhase::kWaiting ? 1 : 0;
    }
  }
  snapshot->finished_requests = ended_requests_;
  snapshot->preemptions = preemptions_;
  snapshot->prompt_tokens = prompt_tokens_;
  snapshot->cached_tokens = cached_tokens_;
  snapshot->queue_seconds = queue_seconds_;
  snapshot->balance = cache_->Balance();
}

}  // namespace swiftkv
