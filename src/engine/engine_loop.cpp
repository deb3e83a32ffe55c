// SPDX-License-Identifier: Apache-2.0
// Implements the loop.
#include "engine/engine_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/forgetting_progress.h"

namespace swiftkv {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

EngineLoop::EngineLoop(const EngineParts& parts, const EngineLimits& limits, EngineInbox* inbox)
    : inbox_(inbox),
      cache_(parts.cache),
      vocabulary_size_(static_cast<std::size_t>(parts.vocabulary->size())),
      recorder_(parts.model->context(), parts.model->layer_shapes(), parts.format,
                parts.cache->Balance().limit_bytes),
      roster_(parts.cache, inbox, &recorder_, parts.model->max_batch_rows()),
      planner_(&roster_, parts.cache, parts.model->max_batch_rows(), limits.max_sequences),
      compaction_(&roster_, parts.cache, parts.model),
      executor_(parts.model, parts.cache),
      sampling_(parts.vocabulary, parts.model->context()) {
  Publish();
}

void EngineLoop::Run(const std::atomic<bool>* abandon) {
  bool idle = false;
  double publishing = 0;  // what the last step's figures took, in seconds
  for (;;) {
    EngineInbox::Mail mail = inbox_->Take(/*wait=*/idle);
    const bool stop = mail.stop;
    const Clock::time_point start = Clock::now();
    // Of the clock's own beginning: a cache may have served an engine before.
    now_ms_ =
        std::chrono::duration_cast<std::chrono::milliseconds>(start.time_since_epoch()).count();
    cache_->SetTime(now_ms_);
    Accept(std::move(mail));
    if (stop) break;
    const double reserved = planner_.reserving_seconds();
    const StepPlan& plan = planner_.Plan();
    idle = plan.empty();
    const int running = roster_.CountRunning();
    const double reserving = planner_.reserving_seconds() - reserved;
    counted_.reserving_seconds += reserving;
    counted_.scheduling_seconds += SecondsSince(start) - reserving;
    if (!idle) Compute(plan, abandon);
    Compact();
    idle = idle && !compaction_.has_work() && !went_on_;
    const double seconds = SecondsSince(start) + publishing;
    counted_.busy_seconds += seconds;
    counted_.running_seconds += running * seconds;
    counted_.most_running = std::max(counted_.most_running, running);
    const Clock::time_point done = Clock::now();
    Publish();
    publishing = SecondsSince(done);
  }
  roster_.CancelAll();
  Publish();
}

void EngineLoop::Accept(EngineInbox::Mail mail) {
  for (const CacheOperation& operation : mail.operations) operation(cache_, now_ms_);
  for (std::unique_ptr<ActiveRequest>& request : mail.submitted) roster_.Add(std::move(request));
  for (const Withdrawal& one : mail.withdrawn) {
    ActiveRequest* const request = roster_.Find(one.id);
    if (request == nullptr) continue;
    if (one.choice == Withdrawal::kAllChoices) {
      roster_.End(request, one.reason);
    } else {
      roster_.EndEarly(request, one.choice, one.reason);
    }
  }
}

void EngineLoop::Compute(const StepPlan& plan, const std::atomic<bool>* abandon) {
  const Clock::time_point start = Clock::now();
  const Result<std::span<const float>> logits = executor_.Execute(plan, abandon);
  const double seconds = SecondsSince(start);
  counted_.forward_seconds += seconds;
  ++counted_.steps;
  if (logits.ok()) {
    recorder_.EndedStep(plan.tokens.size());
    planner_.Learn(seconds);
    const Clock::time_point computed = Clock::now();
    Commit(plan, *logits);
    counted_.sampling_seconds += SecondsSince(computed);
    return;
  }
  planner_.TakeBack();
  if (logits.status().code() != StatusCode::kCancelled) FailStep(logits.status());
}

// Whose rows made the pass fail is not known.
void EngineLoop::FailStep(const Status& status) {
  recorder_.FailedStep();
  for (const Seat& seat : planner_.seats()) {
    if (roster_.Find(seat.request->id) != nullptr) roster_.Fail(seat.request, status);
  }
}

void EngineLoop::Commit(const StepPlan& plan, std::span<const float> logits) {
  for (std::size_t i = 0; i < plan.slices.size(); ++i) {
    planner_.seats()[i].choice->computed += static_cast<std::size_t>(plan.slices[i].rows.num_rows);
  }
  for (std::size_t i = 0; i < plan.slices.size(); ++i) {
    const auto outputs = static_cast<std::size_t>(plan.slices[i].rows.num_outputs);
    if (outputs == 0) continue;
    Take(planner_.seats()[i], logits.first(outputs * vocabulary_size_));
    logits = logits.subspan(outputs * vocabulary_size_);
  }
}

void EngineLoop::Compact() {
  const std::vector<CompactedChoice> done = compaction_.Work();
  went_on_ = !done.empty();
  for (const auto& [seat, status] : done) {
    if (roster_.Find(seat.request->id) == nullptr) continue;  // failed a moment ago
    if (!status.ok()) {
      roster_.Fail(seat.request, status);
      continue;
    }
    const std::vector<float> logits = std::exchange(seat.choice->forgetting.logits, {});
    if (seat.request->only_compresses()) {
      EndCompressed(seat);
    } else if (!logits.empty()) {
      Sample(seat, logits);
    }
  }
}

// The prefix is there for others from now on, and its request is done.
void EngineLoop::EndCompressed(const Seat& seat) {
  ActiveRequest* const request = seat.request;
  const bool uses_figures = seat.choice->query_origin == QueryOrigin::kModel;
  const Status kept = cache_->PinSegment(request->format, request->scope, request->asked.prompt,
                                         request->forgetting->recipes(uses_figures).shared,
                                         now_ms_ + request->asked.keep_compressed_ms);
  if (!kept.ok()) return roster_.Fail(request, kept);
  TellEnd(request, seat.choice, FinishReason::kLength, LengthLimit::kMaxTokens);
  roster_.EndChoice(seat);
}

// `logits`: of the last rows that the choice has computed.
void EngineLoop::Take(const Seat& seat, std::span<const float> logits) {
  if (roster_.Find(seat.request->id) == nullptr) return;  // failed earlier in this step
  if (seat.request->tells_prompt()) {
    sampling_.TellPrompt(seat.request, seat.choice->computed - logits.size() / vocabulary_size_,
                         logits);
  }
  if (seat.choice->computed != seat.choice->tokens.size()) return;
  const std::span<const float> last = logits.last(vocabulary_size_);
  if (IsCompacting(*seat.choice)) {
    seat.choice->forgetting.logits.assign(last.begin(), last.end());
  } else {
    Sample(seat, last);
  }
}

// The first logits of a request are those of all its choices.
void EngineLoop::Sample(const Seat& seat, std::span<const float> logits) {
  ActiveRequest* const request = seat.request;
  if (seat.choice->tokens.size() > request->prompt_tokens() || request->choices.size() == 1) {
    SampleOne(request, seat.choice, logits);
    return;
  }
  roster_.ForkChoices(request);
  for (ActiveChoice& choice : request->choices) {
    if (choice.phase == ChoicePhase::kDone) continue;
    if (choice.withdrawn) {
      roster_.EndEarly(request, choice.index, *choice.withdrawn);
    } else {
      SampleOne(request, &choice, logits);
    }
  }
}

void EngineLoop::SampleOne(ActiveRequest* request, ActiveChoice* choice,
                           std::span<const float> logits) {
  const std::size_t before = choice->tokens.size();
  const Result<bool> ended = sampling_.Next(request, choice, logits);
  if (!ended.ok()) return roster_.Fail(request, ended.status());
  if (choice->tokens.size() > before) recorder_.DrewToken(*request, choice);
  if (*ended) roster_.EndChoice({request, choice});
}

void EngineLoop::Publish() {
  EngineSnapshot snapshot = counted_;
  roster_.Report(&snapshot);
  const std::lock_guard lock(snapshot_mutex_);
  report_.snapshot = snapshot;
  report_.statistics = recorder_.statistics();
}

EngineSnapshot EngineLoop::Snapshot() const {
  const std::lock_guard lock(snapshot_mutex_);
  return report_.snapshot;
}

EngineReport EngineLoop::Report() const {
  const std::lock_guard lock(snapshot_mutex_);
  return report_;
}

}  // namespace swiftkv
