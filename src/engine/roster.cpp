// SPDX-License-Identifier: Apache-2.0
// Implements what happens to requests between their arrival and their end.
#include "engine/roster.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/forgetting_progress.h"
#include "engine/memory_estimate.h"
#include "engine/sampling_stage.h"

namespace swiftkv {
namespace {

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
  BeginForgetting(*request, &request->choices[0]);
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
  candidate.compaction_at = choice.forgetting.next;
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
  if (request.forgetting != nullptr) demand = AfterForgetting(request, choice, demand);
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

void Roster::LookUp(std::size_t index) {
  const Seat& seat = seats_[index];
  Candidate& candidate = candidates_[index];
  candidate.follows = StillFollows(seat.choice);
  if (candidate.follows) return;
  const std::int64_t compressed = FindCompressed(*cache_, *seat.request, *seat.choice).tokens;
  std::int64_t found = compressed;
  if (compressed == 0 && !seat.request->tells_prompt()) {
    const std::span<const TokenId> tokens = AdoptableTokens(
        *seat.request, *seat.choice, FindQueryOrigin(*cache_, *seat.request, *seat.choice));
    found = cache_->FindPrefix(seat.request->format, seat.request->scope, tokens).tokens;
  }
  candidate.follows = Follow(index, found, compressed);
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

void Roster::GiveBack(ActiveChoice* choice) {
  if (choice->sequence) cache_->Release(*choice->sequence);
  choice->sequence.reset();
  choice->forgetting = {};
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (seats_[i].choice == choice) candidates_[i].running = false;
  }
}

void Roster::ForkChoices(ActiveRequest* request) {
  const ActiveChoice& first = request->choices[0];
  for (ActiveChoice& choice : request->choices) {
    if (choice.phase != ChoicePhase::kUnborn) continue;
    choice.tokens = request->asked.prompt;
    choice.phase = ChoicePhase::kWaiting;
    BeginForgetting(*request, &choice);
    // Decided for all choices together, also for one that starts anew.
    choice.query_origin =
        first.query_origin == QueryOrigin::kUndecided ? QueryOrigin::kOwn : first.query_origin;
    const Result<SequenceId> fork = cache_->Fork(*first.sequence);
    if (!fork.ok()) continue;
    choice.sequence = *fork;
    choice.phase = ChoicePhase::kRunning;
    choice.computed = first.computed;
    choice.adopted = first.computed;
    choice.last_step = first.last_step;
    choice.forgetting.last = first.forgetting.last;
    choice.forgetting.next = first.forgetting.next;
    if (first.forgetting.queries) choice.forgetting.queries = first.forgetting.queries->Clone();
  }
}

void Roster::EndChoice(const Seat& seat) {
  NoteHeld(seat);
  GiveBack(seat.choice);
  seat.choice->phase = ChoicePhase::kDone;
  ++ended_choices_;
  recorder_->EndedChoice(*seat.request, *seat.choice);
  if (HasEnded(*seat.request)) Close(seat.request, Status::Ok());
}

// What is told of the cache is what the last choice to end held.
void Roster::NoteHeld(const Seat& seat) const {
  if (!seat.choice->sequence) return;
  KvUsage& kv = seat.request->usage.kv;
  kv.logical_tokens = cache_->Length(*seat.choice->sequence);
  kv.kept_tokens = cache_->KeptTokens(*seat.choice->sequence);
  kv.bytes = cache_->HeldBytes(*seat.choice->sequence);
}

std::vector<Seat> Roster::Compacting() {
  std::vector<Seat> seats;
  for (const auto& request : requests_) {
    for (ActiveChoice& choice : request->choices) {
      if (IsCompacting(choice) && !choice.awaits_segment && request->stream->HasRoom()) {
        seats.push_back({request.get(), &choice});
      }
    }
  }
  return seats;
}

bool Roster::MakeRoomFor(const Seat& seat) {
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (seats_[i].choice != seat.choice) continue;
    const std::optional<std::size_t> victim = ChooseVictim(candidates_, i);
    if (victim) Preempt(*victim);
    return victim.has_value();
  }
  return false;
}

bool Roster::IsAlone(const Seat& seat) const {
  for (const auto& request : requests_) {
    for (const ActiveChoice& choice : request->choices) {
      if (&choice != seat.choice && choice.sequence) return false;
    }
  }
  return true;
}

void Roster::Compacted(const Seat& seat, const CompactionOutcome& outcome, double seconds) {
  compaction_seconds_ += seconds;
  KvUsage& kv = seat.request->usage.kv;
  kv.compaction_seconds += seconds;
  if (!outcome.compacted) return;
  ++kv.compactions;
  ++compactions_;
  forgotten_tokens_ += static_cast<std::uint64_t>(outcome.result.dropped_tokens);
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

void Roster::Report(EngineSnapshot* snapshot) {
  snapshot->generated_tokens = generated_tokens_;
  recorder_->BeginMoment();
  for (const auto& request : requests_) {
    if (HasEnded(*request)) continue;
    if (request->paused) recorder_->IsPaused();
    snapshot->generated_tokens += static_cast<std::uint64_t>(request->usage.completion_tokens);
    for (const ActiveChoice& choice : request->choices) {
      snapshot->running += choice.phase == ChoicePhase::kRunning ? 1 : 0;
      snapshot->waiting += choice.phase == ChoicePhase::kWaiting ? 1 : 0;
      if (!choice.sequence) continue;
      std::optional<std::uint64_t> held;
      if (choice.forgetting.last > 0) held = cache_->HeldBytes(*choice.sequence);
      recorder_->Holds(*request, choice, held);
    }
  }
  snapshot->finished_requests = ended_requests_;
  snapshot->preemptions = preemptions_;
  snapshot->prompt_tokens = prompt_tokens_;
  snapshot->cached_tokens = cached_tokens_;
  snapshot->compactions = compactions_;
  snapshot->forgotten_tokens = forgotten_tokens_;
  snapshot->compaction_seconds = compaction_seconds_;
  snapshot->segments = cache_->segment_totals();
  // Put together anew only where something has changed.
  if (described_ == nullptr || snapshot->segments != described_totals_) {
    described_totals_ = snapshot->segments;
    described_ =
        std::make_shared<const std::vector<SegmentDescription>>(cache_->DescribeSegments());
  }
  snapshot->described_segments = described_;
  snapshot->prefixes = cache_->prefix_counters();
  snapshot->pinned = cache_->pinned_prefixes();
  snapshot->queue_seconds = queue_seconds_;
  snapshot->balance = cache_->Balance();
}

}  // namespace swiftkv
