// SPDX-License-Identifier: Apache-2.0
// Settles what a request forgets: reads its texts, checks them against the model, and names the
// outcome. Layer: engine.
//
// Pure. docs/policies.md says what policies and budgets mean.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/compaction_schedule.h"
#include "engine/kept_formats.h"
#include "engine/query_capture.h"
#include "engine/query_figures.h"
#include "model/decoder_spec.h"
#include "policy/budget_settings.h"
#include "policy/policy_text.h"
#include "swiftkv/kv_cache.h"
#include "swiftkv/request.h"
#include "swiftkv/status.h"

namespace swiftkv {

// The policy's name by which a request forgets nothing, whatever the engine's own.
inline constexpr const char* kNoPolicy = "none";

// Canonical texts that are part of a segment's key: of segments that a request makes of its own
// prompt, and of those that were asked for to be shared.
struct ForgettingRecipes {
  std::string prompt;
  std::string shared;
};

struct ForgettingRule {
  KvFormat format;  // of the sequences that it is for
  PolicyChoice policy;
  BudgetSettings budget;  // of one compaction; never in bytes
  CompactionSchedule schedule;
  std::string name;     // canonical policy, for people
  std::string kept_as;  // canonical: how what is kept is stored
  ForgettingRecipes own_recipes;
  ForgettingRecipes figures_recipes;  // of what is chosen by `figures`, where there are any
  BudgetSettings shared_budget;       // of what was asked for to be shared

  const DecoderSpec* decoder = nullptr;  // whose queries are observed; null: the policy needs none

  // Formats of kept pages, `format` first, as many as the budget has shares; empty: `format` alone.
  std::vector<KvFormat> kept_formats;
  // The model's statistics of queries, for prompts that bring none of their own; null where there
  // are none, or the policy needs none.
  std::shared_ptr<const ModelQueryFigures> figures;
  std::uint64_t seed = 1;  // of methods that draw: the same wherever a prompt is computed

  // The newest queries that are kept for the policy.
  int observed_queries() const { return policy.policy->ObservedQueries(policy.parameters); }
  // Makes what observes a sequence; null where the policy needs no queries.
  std::unique_ptr<QueryCapture> MakeCapture() const;
  bool query_agnostic() const { return policy.policy->info().query_agnostic; }
  bool needs_statistics() const { return policy.policy->info().needs.query_statistics; }
  // By whose queries the choice was made.
  const ForgettingRecipes& recipes(bool uses_figures) const {
    return uses_figures ? figures_recipes : own_recipes;
  }
};

// Has a rule keep part of the tokens, those that matter least, in a format smaller than its own.
void KeepPartIn(const SmallerFormat& smaller, ForgettingRule* rule);

// What a rule must suit.
struct ForgettingTarget {
  std::span<const LayerShape> layers;
  KvFormat format;
  const DecoderSpec* decoder = nullptr;                        // null: queries cannot be observed
  std::shared_ptr<const ModelQueryFigures> figures = nullptr;  // of the model, where known
};

// Returns the fields of `asked`, those of `otherwise` where it leaves them out.
Forgetting CompleteForgetting(const Forgetting& asked, const std::optional<Forgetting>& otherwise);

// Checks what can be checked without a model. Errors: as MakeForgettingRule.
Status CheckForgetting(const Forgetting& asked);

// Returns null where nothing is to be forgotten. Errors: InvalidArgument for an unknown policy or
// parameter, for a ratio outside of [0, 1), for both or neither of ratio and budget, for a budget
// below the least, for a format in `kept_as` that is not smaller than the target's; Unsupported
// where the policy needs what this engine does not observe, or the model has no layer that could
// forget.
Result<std::shared_ptr<const ForgettingRule>> MakeForgettingRule(const Forgetting& asked,
                                                                 const ForgettingTarget& target);

}  // namespace swiftkv
