// SPDX-License-Identifier: Apache-2.0
// Implements reading and checking.
#include "engine/forgetting_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/byte_size.h"
#include "base/status_macros.h"
#include "cache/cache_geometry.h"
#include "cache/format_names.h"
#include "cache/format_plan.h"
#include "engine/kept_formats.h"
#include "engine/segment_recipe.h"
#include "formats/codec_table.h"
#include "swiftkv/page_layout.h"

namespace swiftkv {
namespace {

// Pages of one block of 16 tokens, and of a whole window, as they are written.
struct PageBytes {
  std::uint64_t full = 0;    // of all layers without a window
  std::uint64_t window = 0;  // what those with one hold at most
};

Result<PageBytes> PageBytesOf(const ForgettingTarget& target) {
  SKV_ASSIGN_OR_RETURN(const FormatPlan plan,
                       FormatPlan::For(target.layers, target.format.key, target.format.value));
  PageBytes bytes;
  for (std::size_t i = 0; i < target.layers.size(); ++i) {
    const LayerShape& layer = target.layers[i];
    const std::uint64_t page =
        static_cast<std::uint64_t>(layer.kv_heads) *
        PageLayout::For(plan.open.layer(static_cast<int>(i)), layer.head_dim).bytes;
    if (layer.window == 0) {
      bytes.full += page;
    } else {
      bytes.window += page * static_cast<std::uint64_t>(BlocksFor(layer.window) + 1);
    }
  }
  if (bytes.full > 0) return bytes;
  return Status::Unsupported(
      fmt::format("forgetting is for layers without a sliding window; of the model's {} layers all "
                  "have one, leave out: the policy",
                  target.layers.size()));
}

// Settings of the budget that a policy's text may name beside the policy's own parameters.
struct NumberSetting {
  const char* name;
  void (*set)(BudgetSettings* budget, double value);
  bool whole;
};
constexpr NumberSetting kNumbers[] = {
    {"floor", [](BudgetSettings* budget, double value) { budget->floor = value; }, false},
    {"steepness", [](BudgetSettings* budget, double value) { budget->steepness = value; }, false},
    {"recent",
     [](BudgetSettings* budget, double value) { budget->recent = static_cast<int>(value); }, true},
    {"min_tokens",
     [](BudgetSettings* budget, double value) {
       budget->shortest_length = static_cast<int>(value);
     },
     true},
};

// Takes key=value where the budget knows the key. False: it is the policy's.
Result<bool> TakeSetting(std::string_view text, BudgetSettings* budget,
                         std::optional<BudgetSplit>* split) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view key = text.substr(0, equals);
  const std::string_view value = text.substr(equals + 1);
  if (key == "split") {
    SKV_ASSIGN_OR_RETURN(*split, FindBudgetSplit(value));
    return true;
  }
  for (const NumberSetting& setting : kNumbers) {
    if (key != setting.name) continue;
    double number = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
    constexpr double kMost = 1 << 20;
    const bool fits = parsed.ec == std::errc() && parsed.ptr == value.data() + value.size() &&
                      number >= 0 && number <= kMost &&
                      (!setting.whole || number == static_cast<double>(static_cast<int>(number)));
    if (!fits) {
      return Status::InvalidArgument(fmt::format("{} is a {} from 0 to {}, not: {}", setting.name,
                                                 setting.whole ? "whole number" : "number", kMost,
                                                 value));
    }
    setting.set(budget, number);
    return true;
  }
  return false;
}

// Splits "NAME:key=value,..." into what the policy reads and what the budget does.
Status ReadPolicy(std::string_view text, ForgettingRule* rule) {
  std::optional<BudgetSplit> split;
  const std::size_t colon = text.find(':');
  std::string own(text.substr(0, colon));
  if (colon != std::string_view::npos) {
    char separator = ':';
    std::string_view rest = text.substr(colon + 1);
    for (;;) {
      const std::size_t comma = rest.find(',');
      const std::string_view item = rest.substr(0, comma);
      SKV_ASSIGN_OR_RETURN(const bool taken, TakeSetting(item, &rule->budget, &split));
      if (!taken) {
        own += separator + std::string(item);
        separator = ',';
      }
      if (comma == std::string_view::npos) break;
      rest = rest.substr(comma + 1);
    }
  }
  SKV_ASSIGN_OR_RETURN(rule->policy, ParsePolicy(own));
  rule->budget.split = split.value_or(rule->policy.policy->info().usual_split);
  return Status::Ok();
}

Status ReadBudget(const Forgetting& asked, BudgetSettings* budget) {
  if (asked.ratio && !asked.budget.empty()) {
    return Status::InvalidArgument(
        fmt::format("how much is kept is a ratio or a budget, not both: {} and {}", *asked.ratio,
                    asked.budget));
  }
  if (!asked.ratio && asked.budget.empty()) {
    return Status::InvalidArgument(
        fmt::format("a policy needs how much is removed, a ratio from 0 to below 1, or a budget of "
                    "what is kept, e.g. 4096tokens or 64MiB; neither came with: {}",
                    asked.policy));
  }
  if (asked.ratio) {
    budget->unit = BudgetUnit::kRatio;
    budget->ratio = *asked.ratio;
    return Status::Ok();
  }
  return ParseBudgetAmount(asked.budget, budget);
}

// Bytes become the tokens whose pages they hold, so that later only those count.
Status SettleAmount(const ForgettingTarget& target, BudgetSettings* budget) {
  SKV_ASSIGN_OR_RETURN(const PageBytes page, PageBytesOf(target));
  if (budget->unit != BudgetUnit::kBytes) return CheckBudget(*budget);
  const auto least_pages = static_cast<std::uint64_t>(LeastTokens(*budget) / kPageTokens);
  const std::uint64_t least = page.window + least_pages * page.full;
  if (budget->amount < least) {
    return Status::InvalidArgument(fmt::format(
        "a budget with {} sinks, the newest {} tokens and all of the layers with a "
        "sliding window is at least {}, not: {}",
        budget->sinks, budget->recent, FormatByteSize(least), FormatByteSize(budget->amount)));
  }
  constexpr std::uint64_t kMostPages = std::uint64_t{1} << 27;
  budget->unit = BudgetUnit::kTokens;
  budget->amount = std::min(kMostPages, (budget->amount - page.window) / page.full) * kPageTokens;
  return CheckBudget(*budget);
}

Status CheckNeeds(const DecoderSpec* decoder, ForgettingRule* rule) {
  const PolicyInfo& info = rule->policy.policy->info();
  const bool queries = info.needs.query_statistics || info.needs.probabilities;
  if ((queries && decoder == nullptr) || info.needs.hidden_states) {
    return Status::Unsupported(
        fmt::format("what this engine does not observe, {}, is needed by policy: {}",
                    info.needs.hidden_states ? "hidden states" : "queries", info.name));
  }
  if (queries) rule->decoder = decoder;
  return Status::Ok();
}

Status ReadTexts(const Forgetting& asked, ForgettingRule* rule) {
  if (asked.policy.empty()) {
    return Status::InvalidArgument(
        fmt::format("a ratio, a budget or a smaller format needs a policy, which says what is "
                    "forgotten first; none came with: {}",
                    asked.ratio ? fmt::format("{}", *asked.ratio) : asked.budget + asked.kept_as));
  }
  SKV_RETURN_IF_ERROR(ReadPolicy(asked.policy, rule));
  return ReadBudget(asked, &rule->budget);
}

// Returns how what is kept is stored, in one way of writing it.
Result<std::optional<SmallerFormat>> ReadKeptAs(const Forgetting& asked) {
  if (asked.kept_as.empty()) return std::optional<SmallerFormat>();
  return ParseKeptAs(asked.kept_as);
}

Status SetKeptFormats(const Forgetting& asked, ForgettingRule* rule) {
  rule->kept_as = kKeptAsStored;
  SKV_ASSIGN_OR_RETURN(const std::optional<SmallerFormat> smaller, ReadKeptAs(asked));
  if (!smaller) return Status::Ok();
  PageFormat own;
  SKV_ASSIGN_OR_RETURN(own.key, FindCodec(rule->format.key));
  SKV_ASSIGN_OR_RETURN(own.value, FindCodec(rule->format.value));
  if (!IsSmaller(smaller->format, own)) {
    return Status::InvalidArgument(
        fmt::format("what is kept of a sequence in {} goes into a smaller format in part, not: {}",
                    PageFormatName(own), asked.kept_as));
  }
  KeepPartIn(*smaller, rule);
  return Status::Ok();
}

ForgettingRecipes MakeRecipes(const ForgettingRule& rule, const std::string& statistics) {
  SegmentRecipe recipe = {.policy = rule.name,
                          .budget = &rule.budget,
                          .kept_as = rule.kept_as,
                          .statistics = statistics};
  ForgettingRecipes recipes;
  recipes.prompt = WriteRecipe(recipe);
  recipe.is_shared = true;
  recipe.budget = &rule.shared_budget;
  recipes.shared = WriteRecipe(recipe);
  return recipes;
}

constexpr std::int64_t InWholePages(std::int64_t tokens) {
  return tokens / kPageTokens * kPageTokens;
}

Status SetSchedule(ForgettingRule* rule) {
  BudgetSettings* const budget = &rule->budget;
  CompactionSchedule* const schedule = &rule->schedule;
  schedule->newest = budget->recent;
  schedule->shortest = budget->shortest_length;
  const bool agnostic = rule->query_agnostic();
  if (budget->unit == BudgetUnit::kRatio) {
    schedule->ratio = budget->ratio;
    schedule->when =
        agnostic ? CompactionSchedule::When::kWithinPrompt : CompactionSchedule::When::kAfterPrompt;
    if (budget->ratio == 0) schedule->when = CompactionSchedule::When::kNever;
    return Status::Ok();
  }
  const auto amount = static_cast<std::int64_t>(budget->amount);
  schedule->when = CompactionSchedule::When::kAtBudget;
  schedule->prompt_at_once = !agnostic;
  schedule->budget = InWholePages(amount);
  // Room for so many tokens is made at once: the more, the fewer compactions and the less is kept.
  const std::int64_t room = std::max<std::int64_t>(kPageTokens, InWholePages(amount / 8));
  schedule->target = std::max(LeastTokens(*budget), schedule->budget - room);
  budget->amount = static_cast<std::uint64_t>(schedule->target);
  return Status::Ok();
}

}  // namespace

std::unique_ptr<QueryCapture> ForgettingRule::MakeCapture() const {
  if (decoder == nullptr) return nullptr;
  return std::make_unique<QueryCapture>(*decoder, policy.policy->info().needs, observed_queries());
}

void KeepPartIn(const SmallerFormat& smaller, ForgettingRule* rule) {
  rule->kept_as = CanonicalKeptAs(smaller);
  rule->kept_formats = {rule->format, NamesOf(smaller.format)};
  rule->budget.format_shares = {1 - smaller.share, smaller.share};
}

Forgetting CompleteForgetting(const Forgetting& asked, const std::optional<Forgetting>& otherwise) {
  Forgetting complete = asked;
  if (!otherwise || asked.policy == kNoPolicy) return complete;
  if (complete.policy.empty()) complete.policy = otherwise->policy;
  if (!complete.ratio && complete.budget.empty()) {
    complete.ratio = otherwise->ratio;
    complete.budget = otherwise->budget;
  }
  if (complete.kept_as.empty()) complete.kept_as = otherwise->kept_as;
  return complete;
}

Status CheckForgetting(const Forgetting& asked) {
  if (asked.policy == kNoPolicy) return Status::Ok();
  ForgettingRule rule;
  SKV_RETURN_IF_ERROR(ReadTexts(asked, &rule));
  SKV_RETURN_IF_ERROR(ReadKeptAs(asked).status());
  // Bytes can be judged once the size of pages is known.
  if (rule.budget.unit == BudgetUnit::kBytes) return Status::Ok();
  SKV_RETURN_IF_ERROR(CheckBudget(rule.budget));
  return SetSchedule(&rule);
}

Result<std::shared_ptr<const ForgettingRule>> MakeForgettingRule(const Forgetting& asked,
                                                                 const ForgettingTarget& target) {
  if (asked.policy == kNoPolicy) return std::shared_ptr<const ForgettingRule>();
  auto rule = std::make_shared<ForgettingRule>();
  rule->format = target.format;
  SKV_RETURN_IF_ERROR(ReadTexts(asked, rule.get()));
  SKV_RETURN_IF_ERROR(SetKeptFormats(asked, rule.get()));
  SKV_RETURN_IF_ERROR(SettleAmount(target, &rule->budget));
  SKV_RETURN_IF_ERROR(CheckNeeds(target.decoder, rule.get()));
  rule->shared_budget = rule->budget;
  SKV_RETURN_IF_ERROR(SetSchedule(rule.get()));
  rule->name = CanonicalPolicy(rule->policy);
  rule->own_recipes = MakeRecipes(*rule, "");
  if (rule->needs_statistics() && target.figures != nullptr) {
    rule->figures = target.figures;
    rule->figures_recipes = MakeRecipes(*rule, target.figures->fingerprint);
  }
  return std::shared_ptr<const ForgettingRule>(std::move(rule));
}

}  // namespace swiftkv
