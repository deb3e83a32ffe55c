// SPDX-License-Identifier: Apache-2.0
// Implements the moves.
#include "engine/forgetting_progress.h"

#include <algorithm>

#include "base/check.h"

namespace swiftkv {
namespace {

std::int64_t NextAfter(const ActiveRequest& request, std::int64_t last) {
  if (request.forgetting == nullptr) return 0;
  const auto prompt = static_cast<std::int64_t>(request.prompt_tokens());
  if (request.only_compresses()) return last == 0 ? prompt : 0;
  return request.forgetting->schedule.NextAfter(prompt, last);
}

// Whether what was compressed up to `tokens` serves a request that would compress up to `own`.
bool ReachesFarEnough(const ForgettingRule& rule, std::int64_t tokens, std::int64_t own) {
  if (rule.schedule.when == CompactionSchedule::When::kAtBudget) return tokens > 0;
  return tokens > 0 && tokens + CompactionSchedule::kPromptStretch >= own;
}

// Of those that were chosen by the sequence's own queries, or by the model's.
CompressedPrefix FindOfOrigin(const KvCache& cache, const ActiveRequest& request,
                              std::span<const TokenId> tokens, bool uses_figures) {
  const ForgettingRule& rule = *request.forgetting;
  const ForgettingRecipes& recipes = rule.recipes(uses_figures);
  const auto own = NextAfter(request, 0);
  const std::int64_t shared =
      cache.FindSegment(request.format, request.scope, tokens, recipes.shared);
  if (ReachesFarEnough(rule, shared, own)) return {shared, recipes.shared, uses_figures};
  const bool once = rule.schedule.when == CompactionSchedule::When::kWithinPrompt;
  if (!once || request.only_compresses() || own <= 0) return {};
  // Only what it would have made itself, so that replies do not depend on who came before.
  const auto upto = std::min(tokens.size(), static_cast<std::size_t>(own) + 1);
  const std::int64_t like =
      cache.FindSegment(request.format, request.scope, tokens.first(upto), recipes.prompt);
  return like == own ? CompressedPrefix{like, recipes.prompt, uses_figures} : CompressedPrefix{};
}

}  // namespace

void BeginForgetting(const ActiveRequest& request, ActiveChoice* choice) {
  choice->forgetting = {};
  choice->forgetting.next = NextAfter(request, 0);
}

void AdvanceForgetting(const ActiveRequest& request, std::int64_t length, ActiveChoice* choice) {
  choice->forgetting.job.reset();
  choice->forgetting.last = length;
  choice->forgetting.next = NextAfter(request, length);
  if (choice->forgetting.next == 0) choice->forgetting.queries.reset();
}

CompressedPrefix FindCompressed(const KvCache& cache, const ActiveRequest& request,
                                const ActiveChoice& choice) {
  const ForgettingRule* const rule = request.forgetting.get();
  if (rule == nullptr || !rule->query_agnostic() || !request.scope.share ||
      request.tells_prompt()) {
    return {};
  }
  CompressedPrefix found;
  if (choice.query_origin != QueryOrigin::kModel) {
    found = FindOfOrigin(cache, request, choice.tokens, false);
  }
  if (found.tokens > 0 || rule->figures == nullptr || choice.query_origin == QueryOrigin::kOwn) {
    return found;
  }
  return FindOfOrigin(cache, request, choice.tokens, true);
}

bool TakeCompressed(KvCache* cache, ActiveRequest* request, ActiveChoice* choice) {
  if (choice->forgetting.last > 0 || choice->forgetting.job != nullptr) return false;
  const CompressedPrefix found = FindCompressed(*cache, *request, *choice);
  if (found.tokens == 0) return false;
  if (choice->computed > 0) {
    SKV_CHECK(cache->Truncate(*choice->sequence, 0).ok(), "a sequence can always be emptied");
    choice->computed = 0;
    choice->adopted = 0;
  }
  // As FindCompressed did, so that no longer one is taken than was found.
  const auto upto = std::min(choice->tokens.size(), static_cast<std::size_t>(found.tokens) + 1);
  const Result<std::int64_t> reached =
      cache->AdoptSegment(*choice->sequence, std::span(choice->tokens).first(upto), found.recipe);
  if (!reached.ok() || *reached == 0) return false;  // no room to describe it: computed instead
  choice->computed = static_cast<std::size_t>(*reached);
  choice->query_origin = found.uses_figures ? QueryOrigin::kModel : QueryOrigin::kOwn;
  AdvanceForgetting(*request, *reached, choice);
  return true;
}

QueryOrigin FindQueryOrigin(const KvCache& cache, const ActiveRequest& request,
                            const ActiveChoice& choice) {
  const ForgettingRule* const rule = request.forgetting.get();
  const std::int64_t next = choice.forgetting.next;
  const bool is_open = rule != nullptr && rule->figures != nullptr && next > 0 &&
                       choice.query_origin == QueryOrigin::kUndecided && !request.tells_prompt();
  if (!is_open) return choice.query_origin;
  if (choice.computed > 0) return QueryOrigin::kOwn;  // they were seen
  const auto upto = std::min(choice.tokens.size(), static_cast<std::size_t>(next) + 1);
  const PrefixHit hit =
      cache.FindPrefix(request.format, request.scope, std::span(choice.tokens).first(upto));
  return 2 * hit.tokens >= next ? QueryOrigin::kModel : QueryOrigin::kUndecided;
}

std::span<const TokenId> AdoptableTokens(const ActiveRequest& request, const ActiveChoice& choice,
                                         QueryOrigin origin) {
  const std::span<const TokenId> tokens = choice.tokens;
  const std::int64_t next = choice.forgetting.next;
  if (next <= 0) return tokens;
  const auto upto = std::min(tokens.size(), static_cast<std::size_t>(next) + 1);
  const ForgettingRule& rule = *request.forgetting;
  if (rule.decoder == nullptr) return tokens.first(upto);
  if (rule.needs_statistics() && origin != QueryOrigin::kModel) return {};
  const auto observed = std::min(upto, static_cast<std::size_t>(rule.observed_queries()));
  return tokens.first(upto - observed);
}

QuerySink* QueriesOf(const ActiveRequest& request, ActiveChoice* choice) {
  if (request.forgetting == nullptr || choice->forgetting.next <= 0) return nullptr;
  if (choice->query_origin == QueryOrigin::kModel && request.forgetting->needs_statistics()) {
    return nullptr;
  }
  ForgettingState& state = choice->forgetting;
  if (state.queries == nullptr) state.queries = request.forgetting->MakeCapture();
  return state.queries.get();
}

MemoryDemand AfterForgetting(const ActiveRequest& request, const ActiveChoice& choice,
                             MemoryDemand demand) {
  const CompactionSchedule& schedule = request.forgetting->schedule;
  const std::int64_t last = choice.forgetting.last;
  const std::int64_t dropped =
      last == 0 ? 0 : (last - schedule.HeldAfter(last)) / kPageTokens * kPageTokens;
  demand.tokens -= dropped;
  demand.computed = std::max<std::int64_t>(0, demand.computed - dropped);
  demand.shared = std::max<std::int64_t>(0, demand.shared - dropped);
  // What others may find is made beside the dense blocks, which they may find as well.
  const bool beside = choice.forgetting.next > 0 && last == 0 && request.scope.share;
  if (beside) demand.beside = schedule.HeldAfter(choice.forgetting.next);
  if (schedule.when != CompactionSchedule::When::kAtBudget) return demand;
  const auto prompt = static_cast<std::int64_t>(request.prompt_tokens());
  const std::int64_t total = prompt + demand.growth;
  const std::int64_t most =
      last >= prompt ? std::min(total, schedule.budget) : schedule.MostHeld(prompt, total);
  demand.tokens = std::max(demand.computed, std::min(demand.tokens, most));
  demand.growth = std::max<std::int64_t>(0, std::min(demand.growth, most - demand.tokens));
  return demand;
}

}  // namespace swiftkv
