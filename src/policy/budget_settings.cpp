// SPDX-License-Identifier: Apache-2.0
// Checks budgets and derives what they spare.
#include "policy/budget_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/status_macros.h"
#include "swiftkv/page_codec.h"

namespace swiftkv {
namespace {

constexpr int kMostTokens = 1 << 20;
constexpr std::size_t kMostFormats = 4;

Status CheckTokens(const char* what, int value) {
  if (value >= 0 && value <= kMostTokens) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("{} is a number of tokens from 0 to {}, not: {}", what, kMostTokens, value));
}

Status CheckShares(const std::vector<double>& shares) {
  if (shares.empty() || shares.size() > kMostFormats) {
    return Status::InvalidArgument(
        fmt::format("kept tokens are in 1 to {} formats, not: {}", kMostFormats, shares.size()));
  }
  double sum = 0;
  for (const double share : shares) {
    if (!(share >= 0 && share <= 1)) {
      return Status::InvalidArgument(
          fmt::format("a format's part of the kept tokens is from 0 to 1, not: {}", share));
    }
    sum += share;
  }
  constexpr double kRounding = 1e-6;
  if (std::abs(sum - 1) <= kRounding) return Status::Ok();
  return Status::InvalidArgument(fmt::format("the parts of all formats add up to 1, not: {}", sum));
}

std::int64_t InWholePages(std::int64_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens * kPageTokens;
}

}  // namespace

std::int64_t CompressibleEnd(const BudgetSettings& settings, std::int64_t length) {
  return std::max<std::int64_t>(0, length - settings.recent) / kPageTokens * kPageTokens;
}

std::int64_t LeastTokens(const BudgetSettings& settings) {
  // The newest begin with a block, so that up to 15 more belong to them.
  return InWholePages(settings.sinks) + InWholePages(settings.recent + kPageTokens - 1) +
         kPageTokens;
}

Status CheckBudget(const BudgetSettings& settings) {
  if (settings.unit == BudgetUnit::kRatio && !(settings.ratio >= 0 && settings.ratio < 1)) {
    return Status::InvalidArgument(fmt::format(
        "a ratio is the fraction removed, from 0 (keeps all) to below 1, not: {}", settings.ratio));
  }
  SKV_RETURN_IF_ERROR(CheckTokens("sinks", settings.sinks));
  SKV_RETURN_IF_ERROR(CheckTokens("recent", settings.recent));
  SKV_RETURN_IF_ERROR(CheckTokens("the shortest length", settings.shortest_length));
  if (settings.unit == BudgetUnit::kTokens) {
    const std::int64_t least = LeastTokens(settings);
    if (settings.amount < static_cast<std::uint64_t>(least)) {
      return Status::InvalidArgument(
          fmt::format("a budget with {} sinks and the newest {} tokens is at least {} tokens, in "
                      "whole pages and with one to choose, not: {}",
                      settings.sinks, settings.recent, least, settings.amount));
    }
  }
  if (!(settings.floor >= 0 && settings.floor <= 1)) {
    return Status::InvalidArgument(
        fmt::format("the floor is a part of an even share, from 0 to 1, not: {}", settings.floor));
  }
  constexpr double kSteepest = 1000;
  if (!(settings.steepness >= 1 && settings.steepness <= kSteepest)) {
    return Status::InvalidArgument(fmt::format("the steepness is a number from 1 to {}, not: {}",
                                               kSteepest, settings.steepness));
  }
  return CheckShares(settings.format_shares);
}

}  // namespace swiftkv
