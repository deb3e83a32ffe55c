// SPDX-License-Identifier: Apache-2.0
// Runs the loop schedule -> execute -> commit for one sequence.
#include "engine/generation_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/byte_size.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace swiftkv {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsBetween(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

std::size_t CommonPrefix(const std::vector<TokenId>& held, std::size_t held_count,
                         const std::vector<TokenId>& prompt) {
  const std::size_t limit = std::min(held_count, prompt.size());
  std::size_t common = 0;
  while (common < limit && held[common] == prompt[common]) ++common;
  return common;
}

bool IsSet(const std::atomic<bool>* flag) {
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

}  // namespace

// What one call of Generate carries from step to step.
struct GenerationSession::Run {
  const GenerationRequest* request;
  const GenerationCallbacks* callbacks;
  const std::atomic<bool>* cancel;
  Sampler* sampler;
  TextStream text;
  Clock::time_point start;
  Clock::time_point first_token;
  double decode_compaction = 0;  // seconds in compactions after the first token
  bool finished = false;
  GenerationResult result;

  void Finish(FinishReason reason, LengthLimit limit = LengthLimit::kNone) {
    finished = true;
    result.reason = reason;
    result.limit = limit;
  }

  void Tell(const std::string& delta) {
    if (delta.empty()) return;
    result.text += delta;
    if (callbacks->on_text && !callbacks->on_text(delta) && !finished) {
      Finish(FinishReason::kCancelled);
    }
  }
};

GenerationSession::GenerationSession(LanguageModel* model, const Vocabulary* vocabulary,
                                     KvCache* cache, KvFootprint footprint)
    : model_(model),
      vocabulary_(vocabulary),
      cache_(cache),
      footprint_(std::move(footprint)),
      executor_(model, cache) {}

GenerationSession::~GenerationSession() { Reset(); }

void GenerationSession::Reset() {
  if (has_sequence_) cache_->Release(state_.sequence);
  has_sequence_ = false;
  state_ = SequenceState{};
  forgetting_ = {};
  uses_figures_ = false;
}

std::optional<SequenceId> GenerationSession::sequence() const {
  return has_sequence_ ? std::optional(state_.sequence) : std::nullopt;
}

std::int64_t GenerationSession::Length() const {
  return has_sequence_ ? cache_->Length(state_.sequence) : 0;
}

Status GenerationSession::StartSequence() {
  Reset();
  SKV_ASSIGN_OR_RETURN(state_.sequence, cache_->CreateSequence());
  has_sequence_ = true;
  return Status::Ok();
}

Status GenerationSession::CheckPrompt(const GenerationRequest& request) const {
  const std::vector<TokenId>& prompt = request.prompt;
  if (prompt.empty()) {
    return Status::InvalidArgument("the prompt is empty; at least one token is needed, got 0");
  }
  const auto context = static_cast<std::size_t>(model_->context());
  if (prompt.size() >= context) {
    return Status::InvalidArgument(
        fmt::format("the prompt does not fit into the context of {} tokens, which must hold it and "
                    "one token of the reply; the prompt has {}",
                    context, prompt.size()));
  }
  for (const TokenId token : prompt) {
    if (!vocabulary_->Contains(token)) {
      return Status::InvalidArgument(
          fmt::format("a prompt token must be in [0, {}), got {}", vocabulary_->size(), token));
    }
  }
  return CheckPromptFits(request);
}

// Counts pages alone: a prompt that passes may still lack room for metadata, which Reserve finds.
Status GenerationSession::CheckPromptFits(const GenerationRequest& request) const {
  const auto prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
  const std::int64_t held = request.forgetting == nullptr ? prompt_tokens
                                                          : request.forgetting->schedule.MostHeld(
                                                                prompt_tokens, prompt_tokens);
  const std::uint64_t needed = footprint_.PageBytes(held);
  const std::uint64_t limit = cache_->Balance().limit_bytes;
  if (needed <= limit) return Status::Ok();
  return Status::ResourceExhausted(
      fmt::format("the prompt's {} tokens need {} of KV memory in {}; the limit is {}, room for "
                  "about {} tokens",
                  prompt_tokens, FormatByteSize(needed), cache_->format_name(),
                  FormatByteSize(limit), footprint_.TokensWithin(limit)));
}

Result<PrefixHit> GenerationSession::ReusePrefix(const GenerationRequest& request) {
  const std::vector<TokenId>& prompt = request.prompt;
  PrefixHit hit;
  std::size_t kept = 0;
  if (has_sequence_) {
    const auto held = static_cast<std::size_t>(Length());
    kept = CommonPrefix(state_.tokens, held, prompt);
    if (kept + 1 >= prompt.size()) {
      hit.end = PrefixEnd::kWholePrompt;
    } else if (kept < held) {
      hit.end = PrefixEnd::kTokenDiffers;
      hit.differs_at = static_cast<std::int64_t>(kept);
    }
    kept = std::min(kept, prompt.size() - 1);
    // A sliding window may have dropped what the first computed token must see, or a policy.
    if (!cache_->Truncate(state_.sequence, static_cast<std::int64_t>(kept)).ok()) {
      kept = 0;
      hit = {.end = PrefixEnd::kEvicted};
    }
  }
  hit.tokens = static_cast<std::int64_t>(kept);
  if (kept == 0) SKV_RETURN_IF_ERROR(StartSequence());
  state_.tokens = prompt;
  state_.prompt_tokens = prompt.size();
  state_.computed = kept;
  state_.allowed = cache_->format_quality();
  PlanNextCompaction(request);
  // Room for all of the prompt is claimed before any of it is computed; where tokens take less once
  // they are older, or may be forgotten, that would claim more than is ever held at once.
  if (!footprint_.ShrinksWithAge() && request.forgetting == nullptr) {
    SKV_RETURN_IF_ERROR(cache_->Reserve(state_.sequence, static_cast<int>(prompt.size() - kept)));
  }
  return hit;
}

void GenerationSession::PlanNextCompaction(const GenerationRequest& request) {
  forgetting_.job.reset();
  forgetting_.logits.clear();
  forgetting_.next = 0;
  if (request.forgetting != nullptr) {
    const auto prompt = static_cast<std::int64_t>(request.prompt.size());
    forgetting_.next = request.forgetting->schedule.NextAfter(prompt, forgetting_.last);
    // Where earlier turns have passed that length, it is done now.
    const auto computed = static_cast<std::int64_t>(state_.computed);
    if (forgetting_.next > 0) forgetting_.next = std::max(forgetting_.next, computed);
    uses_figures_ |= request.forgetting->figures != nullptr && forgetting_.queries == nullptr &&
                     forgetting_.next > 0 && 2 * computed >= forgetting_.next;
  }
  state_.end = static_cast<std::size_t>(forgetting_.next);
}

bool GenerationSession::IsCompactionDue() const {
  return forgetting_.next > 0 && static_cast<std::int64_t>(state_.computed) == forgetting_.next;
}

// All at once: nobody else waits.
Status GenerationSession::Compact(Run* run) {
  const Clock::time_point start = Clock::now();
  const std::shared_ptr<const ForgettingRule>& rule = run->request->forgetting;
  CompactionJob job(*cache_, {.sequence = state_.sequence,
                              .rule = rule,
                              .model = model_,
                              .queries = forgetting_.queries.get(),
                              .uses_figures = uses_figures_ && rule->figures != nullptr});
  ThreadTeam team(model_->threads());
  while (!job.scored() && !IsSet(run->cancel)) {
    SKV_RETURN_IF_ERROR(job.Score(*cache_, &team));
  }
  if (!job.scored()) return Status::Ok();  // the next step sees that it was cancelled
  SKV_ASSIGN_OR_RETURN(const CompactionOutcome outcome, job.Compact(cache_));
  const double seconds = SecondsBetween(start, Clock::now());
  run->result.times.compaction += seconds;
  if (run->result.decode_steps > 0) run->decode_compaction += seconds;
  run->result.compactions += outcome.compacted ? 1 : 0;
  forgetting_.last = forgetting_.next;
  const std::vector<float> logits = std::exchange(forgetting_.logits, {});
  PlanNextCompaction(*run->request);
  return logits.empty() ? Status::Ok() : SampleNext(run, logits);
}

// Gives back what was reserved and not filled, and forgets tokens that were not computed.
void GenerationSession::Settle() {
  if (!has_sequence_) return;
  SKV_CHECK(cache_->Truncate(state_.sequence, Length()).ok(), "cutting nothing off works");
  state_.tokens.resize(static_cast<std::size_t>(Length()));
}

Result<GenerationResult> GenerationSession::Generate(const GenerationRequest& request,
                                                     const GenerationCallbacks& callbacks,
                                                     const std::atomic<bool>* cancel) {
  const Clock::time_point start = Clock::now();
  SKV_RETURN_IF_ERROR(CheckPrompt(request));
  SKV_ASSIGN_OR_RETURN(std::unique_ptr<Sampler> sampler,
                       Sampler::Create(*vocabulary_, request.sampling));
  sampler->AcceptPrompt(request.prompt);
  const Result<PrefixHit> reused = ReusePrefix(request);
  if (!reused.ok()) {
    Settle();
    return reused.status();
  }

  Run run{.request = &request,
          .callbacks = &callbacks,
          .cancel = cancel,
          .sampler = sampler.get(),
          .text = TextStream(*vocabulary_),
          .start = start,
          .first_token = start,
          .result = {}};
  run.result.prompt_tokens = request.prompt.size();
  run.result.cached_tokens = state_.computed;
  run.result.prefix_end = reused->end;
  run.result.prefix_differs_at = reused->differs_at;
  run.result.seed = sampler->seed();
  while (!run.finished) {
    const Status status = Step(&run);
    if (!status.ok()) {
      Settle();
      return status;
    }
  }
  Settle();
  run.Tell(run.text.Finish());
  return std::move(run.result);
}

Status GenerationSession::Step(Run* run) {
  if (IsSet(run->cancel)) {
    run->Finish(FinishReason::kCancelled);
    return Status::Ok();
  }
  if (IsCompactionDue()) return Compact(run);
  const bool is_prefill = state_.InPrefill();
  StepPlan plan = PlanStep(state_, static_cast<std::size_t>(model_->max_batch_rows()));
  if (forgetting_.next > 0) {
    if (forgetting_.queries == nullptr && !uses_figures_)
      forgetting_.queries = run->request->forgetting->MakeCapture();
    plan.slices.front().rows.queries = forgetting_.queries.get();
  }
  const Clock::time_point start = Clock::now();
  const Result<std::span<const float>> logits = executor_.Execute(plan, run->cancel);
  if (!logits.ok()) {
    if (logits.status().code() == StatusCode::kCancelled) {
      run->Finish(FinishReason::kCancelled);
      return Status::Ok();
    }
    if (logits.status().code() == StatusCode::kResourceExhausted && !is_prefill) {
      run->Finish(FinishReason::kLength, LengthLimit::kMemory);
      return Status::Ok();
    }
    return logits.status();
  }
  state_.computed += plan.tokens.size();
  if (is_prefill) {
    run->result.times.prefill += SecondsBetween(start, Clock::now());
    if (run->callbacks->on_prompt) {
      run->callbacks->on_prompt(std::min(state_.computed, state_.prompt_tokens),
                                state_.prompt_tokens);
    }
  } else {
    ++run->result.decode_steps;
  }
  if (logits->empty()) return Status::Ok();
  if (IsCompactionDue()) {
    forgetting_.logits.assign(logits->begin(), logits->end());
    return Status::Ok();
  }
  return SampleNext(run, *logits);
}

Status GenerationSession::SampleNext(Run* run, std::span<const float> logits) {
  GenerationResult& result = run->result;
  if (run->request->max_tokens == 0) {
    run->Finish(FinishReason::kLength, LengthLimit::kMaxTokens);
    return Status::Ok();
  }
  SKV_ASSIGN_OR_RETURN(const TokenId token, run->sampler->Sample(logits));
  const Clock::time_point now = Clock::now();
  if (result.decode_steps == 0) {
    run->first_token = now;
    result.times.first_token = SecondsBetween(run->start, now);
  }
  result.times.decode = SecondsBetween(run->first_token, now) - run->decode_compaction;
  if (vocabulary_->IsEndOfGeneration(token)) {
    result.end_token = token;
    run->Finish(FinishReason::kStop);
    return Status::Ok();
  }
  SKV_RETURN_IF_ERROR(run->sampler->Accept(token));
  result.tokens.push_back(token);
  state_.tokens.push_back(token);
  run->Tell(run->text.Push(token));
  if (run->finished) return Status::Ok();
  if (static_cast<int>(result.tokens.size()) == run->request->max_tokens) {
    run->Finish(FinishReason::kLength, LengthLimit::kMaxTokens);
  } else if (state_.tokens.size() >= static_cast<std::size_t>(model_->context())) {
    run->Finish(FinishReason::kLength, LengthLimit::kContext);
  }
  return Status::Ok();
}

}  // namespace swiftkv
