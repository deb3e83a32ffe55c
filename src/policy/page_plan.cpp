// SPDX-License-Identifier: Apache-2.0
// Ranks tokens, takes pages in the order of grants while the budget lasts, then improves formats.
#include "policy/page_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/status_macros.h"
#include "policy/grant_order.h"
#include "policy/kept_pages.h"
#include "policy/token_ranking.h"
#include "swiftkv/page_codec.h"

namespace swiftkv {
namespace {

std::uint64_t PagesFor(std::int64_t tokens) {
  return static_cast<std::uint64_t>((tokens + kPageTokens - 1) / kPageTokens);
}

// Bytes of one page in every head of the layers that are planned.
std::uint64_t BytesOfOnePage(const PlanInputs& inputs) {
  std::uint64_t bytes = 0;
  for (const PlannedLayer& layer : inputs.layers) {
    if (layer.window == 0) bytes += layer.dense_page_bytes * layer.heads.size();
  }
  return bytes;
}

// What sinks and newest tokens take at most in a sequence of any length.
std::uint64_t GuardBytes(const BudgetSettings& settings, const PlanInputs& inputs) {
  const std::uint64_t sinks = PagesFor(settings.sinks);
  const std::uint64_t newest = PagesFor(settings.recent + kPageTokens - 1);
  std::uint64_t bytes = 0;
  for (const PlannedLayer& layer : inputs.layers) {
    if (layer.window > 0) continue;
    bytes += (sinks * layer.page_bytes[0] + newest * layer.dense_page_bytes) * layer.heads.size();
  }
  return bytes;
}

// A ratio is for sequences of all lengths: where its part of one is less than the guards take, the
// guards stay. Absolute budgets mean what they say.
Status CheckGuards(const BudgetSettings& settings, const PlanInputs& inputs) {
  if (settings.unit == BudgetUnit::kRatio) return Status::Ok();
  const bool in_tokens = settings.unit == BudgetUnit::kTokens;
  const std::uint64_t guards = GuardBytes(settings, inputs);
  const std::uint64_t page = std::max<std::uint64_t>(1, BytesOfOnePage(inputs));
  const std::uint64_t least =
      in_tokens ? (guards + page - 1) / page * kPageTokens : guards + inputs.spared_bytes;
  if (settings.amount >= least) return Status::Ok();
  return Status::InvalidArgument(fmt::format(
      "a budget with {} sinks, the newest {} tokens and all of the layers with a "
      "sliding window is at least {} {}, not: {}",
      settings.sinks, settings.recent, least, in_tokens ? "tokens" : "bytes", settings.amount));
}

Status CheckInputs(const BudgetSettings& settings, const PlanInputs& inputs) {
  const std::size_t formats = settings.format_shares.size();
  for (const PlannedLayer& layer : inputs.layers) {
    if (layer.window > 0) continue;
    if (layer.page_bytes.size() != formats) {
      return Status::InvalidArgument(
          fmt::format("shares are of the {} formats that layer {} is offered, not of: {}",
                      layer.page_bytes.size(), layer.layer, formats));
    }
    SKV_CHECK(std::is_sorted(layer.page_bytes.rbegin(), layer.page_bytes.rend()),
              "formats are offered from the largest to the smallest");
    for (const HeadCandidates& head : layer.heads) {
      SKV_CHECK(head.scores.size() == head.positions.size());
      SKV_CHECK(head.positions.empty() ||
                    head.positions.back() < CompressibleEnd(settings, inputs.length),
                "the newest tokens are not offered");
    }
  }
  return CheckGuards(settings, inputs);
}

// What the layers without a window may take.
std::uint64_t BudgetBytes(const BudgetSettings& settings, const PlanInputs& inputs) {
  const std::uint64_t page = BytesOfOnePage(inputs);
  switch (settings.unit) {
    case BudgetUnit::kRatio:
      return static_cast<std::uint64_t>(
          std::floor((1 - settings.ratio) * static_cast<double>(PagesFor(inputs.length) * page)));
    case BudgetUnit::kTokens:
      return settings.amount / kPageTokens * page;
    case BudgetUnit::kBytes:
      return settings.amount - inputs.spared_bytes;
  }
  return 0;
}

// One head while pages are granted.
struct GrantedHead {
  const PlannedLayer* layer;
  int head;
  RankedTokens ranked;
  KeptPages pages;
};

std::vector<GrantedHead> RankHeads(const BudgetSettings& settings, const PlanInputs& inputs) {
  std::vector<GrantedHead> heads;
  for (const PlannedLayer& layer : inputs.layers) {
    if (layer.window > 0) continue;
    const ScoreRange range = settings.split == BudgetSplit::kGlobal
                                 ? RangeOfScores(layer.heads, settings.sinks)
                                 : ScoreRange{};
    for (std::size_t h = 0; h < layer.heads.size(); ++h) {
      RankedTokens ranked = RankTokens(layer.heads[h], settings.sinks, range);
      const KeptPages pages(settings.format_shares, ranked.sink_pages,
                            static_cast<int>(ranked.page_values.size()));
      heads.push_back({&layer, static_cast<int>(h), std::move(ranked), pages});
    }
  }
  return heads;
}

// Takes pages in order while they fit, then improves formats in the same order. `used` is what the
// sinks take. Stopping at the first that does not fit keeps what budgets keep nested.
std::uint64_t Grant(std::span<const int> order, std::uint64_t budget, std::uint64_t used,
                    std::vector<GrantedHead>* heads) {
  std::vector<int> seen(heads->size());
  for (const int index : order) {
    GrantedHead& head = (*heads)[static_cast<std::size_t>(index)];
    if (seen[static_cast<std::size_t>(index)]++ < head.ranked.sink_pages) continue;
    const KeptPages larger = head.pages.WithOneMore();
    const std::uint64_t after =
        used - head.pages.Bytes(head.layer->page_bytes) + larger.Bytes(head.layer->page_bytes);
    if (after > budget) return used;
    head.pages = larger;
    used = after;
  }
  for (const int index : order) {
    GrantedHead& head = (*heads)[static_cast<std::size_t>(index)];
    const KeptPages better = head.pages.WithOneBetter();
    const std::uint64_t after =
        used - head.pages.Bytes(head.layer->page_bytes) + better.Bytes(head.layer->page_bytes);
    if (after > budget) return used;
    head.pages = better;
    used = after;
  }
  return used;
}

// Cuts the ranking by formats; within each, tokens are in the order of their positions again.
HeadPlan PlanHead(const GrantedHead& head) {
  HeadPlan plan;
  plan.layer = head.layer->layer;
  plan.head = head.head;
  const std::span<const std::int32_t> order = head.ranked.order;
  std::size_t begin = 0;
  for (const int end_page : head.pages.Ends()) {
    const std::size_t end =
        std::min(order.size(), static_cast<std::size_t>(end_page) * kPageTokens);
    const auto part = order.subspan(begin, end - begin);
    std::vector<std::int32_t>& kept = plan.kept.emplace_back(part.begin(), part.end());
    std::sort(kept.begin(), kept.end());
    begin = end;
  }
  return plan;
}

}  // namespace

Result<PagePlan> PlanPages(const BudgetSettings& settings, const PlanInputs& inputs) {
  SKV_RETURN_IF_ERROR(CheckBudget(settings));
  SKV_RETURN_IF_ERROR(CheckInputs(settings, inputs));
  const std::int64_t end = CompressibleEnd(settings, inputs.length);
  const std::uint64_t newest_bytes = PagesFor(inputs.length - end) * BytesOfOnePage(inputs);
  PagePlan plan;
  plan.budget_bytes = BudgetBytes(settings, inputs);
  plan.dense_bytes = newest_bytes;
  std::int64_t candidates = 0;
  for (const PlannedLayer& layer : inputs.layers) {
    if (layer.window > 0) continue;
    for (const HeadCandidates& head : layer.heads) {
      const auto tokens = static_cast<std::int64_t>(head.scores.size());
      plan.dense_bytes += PagesFor(tokens) * layer.dense_page_bytes;
      candidates += tokens;
    }
  }
  plan.bytes = plan.dense_bytes;
  plan.kept_tokens = candidates;
  if (inputs.length < settings.shortest_length || candidates == 0) return plan;
  plan.outcome = PlanOutcome::kFits;
  if (plan.dense_bytes <= plan.budget_bytes) return plan;
  plan.outcome = PlanOutcome::kCompress;
  std::vector<GrantedHead> heads = RankHeads(settings, inputs);
  std::vector<HeadValues> values;
  std::uint64_t used = newest_bytes;
  for (const GrantedHead& head : heads) {
    values.push_back({head.layer->layer, head.ranked.page_values});
    used += head.pages.Bytes(head.layer->page_bytes);
  }
  plan.guards_exceed_budget = used > plan.budget_bytes;
  plan.bytes = used;
  if (!plan.guards_exceed_budget) {
    plan.bytes = Grant(GrantOrder(settings, values), plan.budget_bytes, used, &heads);
  }
  plan.kept_tokens = 0;
  for (const GrantedHead& head : heads) {
    plan.heads.push_back(PlanHead(head));
    for (const auto& kept : plan.heads.back().kept) {
      plan.kept_tokens += static_cast<std::int64_t>(kept.size());
    }
  }
  plan.dropped_tokens = candidates - plan.kept_tokens;
  return plan;
}

}  // namespace swiftkv
