// SPDX-License-Identifier: Apache-2.0
// Implements what happens to requests between their arrival and their end.
#include "engine/roster.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "engine/memory_estimate.h"
#include "engine/sampling_stage.h"
#include "engine/shared_prefill.h"
#include "swiftkv/page_view.h"

namespace swiftkv {
namespace {

bool HasEnded(const ActiveRequest& request) {
  return std::all_of(request.choices.begin(), request.choices.end(),
                     [](const ActiveChoice& c) { return c.phase == ChoicePhase::kDone; });
}

// Whether what `leader` computes is found by `follower`.
bool SharesWith(const ActiveRequest& leader, const ActiveRequest& follower) {
  const PrefixScope& a = leader.scope;
  const PrefixScope& b = follower.scope;
  return a.share && b.share && a.tenant_salt == b.tenant_salt && a.request_salt == b.request_salt &&
         leader.format == follower.format && Serves(a.allowed, b.allowed);
}

int UnbornChoices(const ActiveRequest& request) {
  return static_cast<int>(
      std::count_if(request.choices.begin(), request.choices.end(),
                    [](const ActiveChoice& c) { return c.phase == ChoicePhase::kUnborn; }));
}

bool IsComputing(const Candidate& candidate, const Seat& seat) {
  return candidate.running && !candidate.paused && !seat.choice->stalled &&
         candidate.tokens - candidate.computed > 1;
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
  candidate.recompute_tokens = candidate.computed - static_cast<std::int64_t>(choice.adopted);
  candidate.last_step = choice.last_step;
  candidate.reserved = request.reserved_tokens > 0;
  if (!candidate.running) return candidate;  // what is to come is looked up when it may get a place
  Estimate(request, choice, static_cast<std::int64_t>(choice.adopted), &candidate);
  return candidate;
}

// `shared`: of its first tokens, those that others have as well, or that it will find.
void Roster::Estimate(const ActiveRequest& request, const ActiveChoice& choice, std::int64_t shared,
                      Candidate* candidate) const {
  MemoryDemand demand;
  demand.tokens = candidate->tokens;
  demand.computed = choice.sequence ? candidate->computed : shared;
  demand.shared = shared;
  demand.step_rows = step_rows_;
  if (request.asked.max_tokens >= 0) {
    const auto reply = demand.tokens - static_cast<std::int64_t>(request.prompt_tokens());
    demand.growth = std::max<std::int64_t>(0, request.asked.max_tokens - reply);
  }
  demand.further_choices = candidate->places - 1;
  demand.reserved = request.reserved_tokens;
  demand.has_reserved = choice.sequence.has_value();
  const MemoryEstimate estimate = EstimateMemory(request.footprint, demand);
  candidate->held_bytes = estimate.held_bytes;
  candidate->bytes_to_come = estimate.bytes_to_come;
  candidate->bytes_to_grow = estimate.bytes_to_grow;
}

void Roster::Collect() {
  std::erase_if(requests_, [](const auto& request) { return HasEnded(*request); });
  candidates_.clear();
  seats_.clear();
  somebody_goes_on_ = false;
  for (const auto& request : requests_) {
    for (ActiveChoice& choice : request->choices) {
      if (choice.phase != ChoicePhase::kWaiting && choice.phase != ChoicePhase::kRunning) continue;
      candidates_.push_back(Describe(*request, choice));
      seats_.push_back({request.get(), &choice});
      somebody_goes_on_ |= candidates_.back().running && !candidates_.back().paused;
    }
    const bool was_paused = std::exchange(request->paused, !request->stream->HasRoom());
    if (request->paused && !was_paused) recorder_->Paused();
  }
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    const ActiveChoice& choice = *seats_[i].choice;
    candidates_[i].barred =
        somebody_goes_on_ && choice.was_preempted && choice.ended_then == ended_choices_;
  }
  JoinPrefills();
}

bool Roster::StillFollows(ActiveChoice* choice) const {
  if (choice->until == 0) return false;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (seats_[i].request->id != choice->leader) continue;
    if (seats_[i].choice->index != choice->leader_index) continue;
    if (IsComputing(candidates_[i], seats_[i]) && candidates_[i].computed < choice->until) {
      return true;
    }
  }
  choice->until = 0;
  return false;
}

bool Roster::Follow(std::size_t index, std::int64_t computed) {
  const Seat& seat = seats_[index];
  if (seat.request->tells_prompt()) return false;
  const PrefillView mine = {.tokens = seat.choice->tokens, .computed = computed};
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    const Seat& other = seats_[i];
    if (!IsComputing(candidates_[i], other) || !GoesBefore(candidates_[i], candidates_[index]) ||
        !SharesWith(*other.request, *seat.request)) {
      continue;
    }
    const std::int64_t until =
        FollowUntil(mine, {.tokens = other.choice->tokens, .computed = candidates_[i].computed});
    if (until <= seat.choice->until) continue;
    seat.choice->leader = other.request->id;
    seat.choice->leader_index = other.choice->index;
    seat.choice->until = until;
  }
  return seat.choice->until > 0;
}

// Prompts that are being computed wait for one another as those do that have no place.
void Roster::JoinPrefills() {
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    ActiveChoice& choice = *seats_[i].choice;
    if (!IsComputing(candidates_[i], seats_[i])) continue;
    const bool followed = choice.until > 0;
    candidates_[i].follows = StillFollows(&choice);
    if (candidates_[i].follows) continue;
    if (followed) {
      Adopt(seats_[i]);
      candidates_[i] = Describe(*seats_[i].request, choice);
    }
    candidates_[i].follows = Follow(i, candidates_[i].computed);
  }
}

void Roster::LookUp(std::size_t index) {
  const Seat& seat = seats_[index];
  Candidate& candidate = candidates_[index];
  candidate.follows = StillFollows(seat.choice);
  if (candidate.follows) return;
  const std::int64_t found =
      seat.request->tells_prompt()
          ? 0
          : cache_->FindPrefix(seat.request->format, seat.request->scope, seat.choice->tokens)
                .tokens;
  candidate.follows = Follow(index, found);
  Estimate(*seat.request, *seat.choice, found, &candidate);
}

int Roster::CountRunning() const {
  return static_cast<int>(std::count_if(candidates_.begin(), candidates_.end(),
                                        [](const Candidate& c) { return c.running; }));
}

std::uint64_t Roster::AvailableBytes() const {
  const KvBalance balance = cache_->Balance();
  return balance.limit_bytes - balance.mapped_bytes + balance.free_bytes +
         cache_->ReclaimableBytes();
}

void Roster::LeaveQueue(ActiveRequest* request) {
  if (request->left_queue) return;
  request->left_queue = true;
  inbox_->LeftQueue();
}

// Takes what is findable beyond what the choice holds.
void Roster::Adopt(const Seat& seat) {
  if (seat.request->tells_prompt()) return;
  ActiveChoice& choice = *seat.choice;
  const Result<PrefixHit> hit = cache_->AdoptPrefix(*choice.sequence, choice.tokens);
  if (!hit.ok()) return;  // no room to describe it: computed instead
  const auto reached = static_cast<std::size_t>(cache_->Length(*choice.sequence));
  const std::size_t taken = reached - choice.computed;
  choice.computed = reached;
  choice.adopted += taken;
  RequestUsage& usage = seat.request->usage;
  // What a request computed itself and lost is not counted when it is found again.
  if (usage.preemptions > 0 || choice.index != 0) return;
  usage.cached_tokens += static_cast<std::int64_t>(taken);
  usage.prefix_end = hit->end;
  usage.prefix_differs_at = hit->differs_at;
  if (!seat.request->left_queue) return;
  cached_tokens_ += taken;
  recorder_->FoundMore(*seat.request, taken);
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
  choice.phase = ChoicePhase::kWaiting;
  choice.computed = 0;
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
  choice.until = 0;
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
  recorder_->EndedChoice(*seat.request, *seat.choice);
  if (HasEnded(*seat.request)) Close(seat.request, Status::Ok());
}

void Roster::Close(ActiveRequest* request, const Status& status) {
  recorder_->EndedRequest(*request);
  LeaveQueue(request);
  ++ended_requests_;
  generated_tokens_ += static_cast<std::uint64_t>(request->usage.completion_tokens);
  request->usage.total_seconds = request->SecondsSinceSubmit();
  request->stream->Close(status, request->usage);
  inbox_->Ended();
}

void Roster::TellAndEnd(ActiveRequest* request, ActiveChoice* choice, FinishReason reason) {
  if (choice->phase == ChoicePhase::kDone) return;
  TellEnd(request, choice, reason, LengthLimit::kNone);
  EndChoice({request, choice});
}

void Roster::End(ActiveRequest* request, FinishReason reason) {
  for (ActiveChoice& choice : request->choices) TellAndEnd(request, &choice, reason);
}

void Roster::EndEarly(ActiveRequest* request, int index, FinishReason reason) {
  if (index < 0 || index >= static_cast<int>(request->choices.size())) return;
  ActiveChoice& first = request->choices[0];
  if (index == 0) {
    first.withdrawn = reason;
  } else {
    TellAndEnd(request, &request->choices[static_cast<std::size_t>(index)], reason);
  }
  if (first.withdrawn && UnbornChoices(*request) == 0) {
    TellAndEnd(request, &first, *first.withdrawn);
  }
}

void Roster::CancelAll() {
  for (const auto& request : requests_) End(request.get(), FinishReason::kCancelled);
}

void Roster::Fail(ActiveRequest* request, const Status& status) {
  for (ActiveChoice& choice : request->choices) {
    if (choice.phase == ChoicePhase::kDone) continue;
    GiveBack(&choice);
    choice.phase = ChoicePhase::kDone;
    ++ended_choices_;
    recorder_->EndedChoice(*request, choice);
  }
  Close(request, status);
}

void Roster::Report(EngineSnapshot* snapshot) const {
  snapshot->generated_tokens = generated_tokens_;
  recorder_->BeginMoment();
  for (const auto& request : requests_) {
    if (HasEnded(*request)) continue;
    if (request->paused) recorder_->IsPaused();
    snapshot->generated_tokens += static_cast<std::uint64_t>(request->usage.completion_tokens);
    for (const ActiveChoice& choice : request->choices) {
      snapshot->running += choice.phase == ChoicePhase::kRunning ? 1 : 0;
      snapshot->waiting += choice.phase == ChoicePhase::kWaiting ? 1 : 0;
      if (choice.sequence) recorder_->Holds(*request, choice);
    }
  }
  snapshot->finished_requests = ended_requests_;
  snapshot->preemptions = preemptions_;
  snapshot->prompt_tokens = prompt_tokens_;
  snapshot->cached_tokens = cached_tokens_;
  snapshot->prefixes = cache_->prefix_counters();
  snapshot->pinned = cache_->pinned_prefixes();
  snapshot->queue_seconds = queue_seconds_;
  snapshot->balance = cache_->Balance();
}

}  // namespace swiftkv
