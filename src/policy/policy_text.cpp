// SPDX-License-Identifier: Apache-2.0
// Parses and writes the texts of policies and budgets.
#include "policy/policy_text.h"

#include <fmt/format.h>

#include <charconv>

#include "base/byte_size.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace swiftkv {
namespace {

const char* NameOf(BudgetSplit split) {
  for (const BudgetSplitInfo& info : AllBudgetSplits()) {
    if (info.split == split) return info.name;
  }
  return "unknown";
}

Status ReadParameter(std::string_view text, PolicyParameters* parameters) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return Status::InvalidArgument(
        fmt::format("a policy's parameters are key=value, separated by commas, not: {}", text));
  }
  const std::string_view number = text.substr(equals + 1);
  double value = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size()) {
    return Status::InvalidArgument(
        fmt::format("the value of a policy's parameter is a number, not: {}", text));
  }
  const std::string name(text.substr(0, equals));
  if (parameters->emplace(name, value).second) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("each parameter of a policy is named once, not again: {}", text));
}

}  // namespace

Result<PolicyChoice> ParsePolicy(std::string_view text) {
  const std::size_t colon = text.find(':');
  PolicyChoice choice;
  SKV_ASSIGN_OR_RETURN(choice.policy, FindPolicy(text.substr(0, colon)));
  if (colon != std::string_view::npos) {
    std::string_view rest = text.substr(colon + 1);
    for (;;) {
      const std::size_t comma = rest.find(',');
      SKV_RETURN_IF_ERROR(ReadParameter(rest.substr(0, comma), &choice.parameters));
      if (comma == std::string_view::npos) break;
      rest = rest.substr(comma + 1);
    }
  }
  SKV_RETURN_IF_ERROR(choice.policy->Validate(choice.parameters));
  return choice;
}

Status ParseBudgetAmount(std::string_view text, BudgetSettings* settings) {
  constexpr std::string_view kTokens = "tokens";
  std::string_view number = text;
  if (number.ends_with(kTokens)) number.remove_suffix(kTokens.size());
  std::uint64_t tokens = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), tokens);
  if (parsed.ec == std::errc() && parsed.ptr == number.data() + number.size()) {
    settings->unit = BudgetUnit::kTokens;
    settings->amount = tokens;
    return Status::Ok();
  }
  const Result<std::uint64_t> bytes = ParseByteSize(text);
  const bool has_unit = !text.empty() && (text.back() < '0' || text.back() > '9');
  if (!bytes.ok() || !has_unit) {
    return Status::InvalidArgument(fmt::format(
        "a budget is a number of tokens, or of bytes with a unit like 64MiB, not: {}", text));
  }
  settings->unit = BudgetUnit::kBytes;
  settings->amount = *bytes;
  return Status::Ok();
}

std::string CanonicalPolicy(const PolicyChoice& choice) {
  SKV_CHECK(choice.policy != nullptr);
  PolicyParameters all = choice.parameters;
  for (const ParameterSpec& spec : choice.policy->info().parameters) {
    all.emplace(spec.name, spec.default_value);
  }
  std::string text = choice.policy->info().name;
  char separator = ':';
  for (const auto& [name, value] : all) {
    text += fmt::format("{}{}={}", separator, name, value);
    separator = ',';
  }
  return text;
}

std::string CanonicalBudget(const BudgetSettings& settings) {
  std::string text;
  switch (settings.unit) {
    case BudgetUnit::kRatio:
      text = fmt::format("ratio={}", settings.ratio);
      break;
    case BudgetUnit::kTokens:
      text = fmt::format("tokens={}", settings.amount);
      break;
    case BudgetUnit::kBytes:
      text = fmt::format("bytes={}", settings.amount);
      break;
  }
  text += fmt::format(",split={}", NameOf(settings.split));
  if (settings.split == BudgetSplit::kPyramid) {
    text += fmt::format(",steepness={}", settings.steepness);
  }
  if (settings.split == BudgetSplit::kAda || settings.split == BudgetSplit::kGlobal) {
    text += fmt::format(",floor={}", settings.floor);
  }
  text += fmt::format(",sinks={},recent={},shortest_length={},shares=", settings.sinks,
                      settings.recent, settings.shortest_length);
  const char* separator = "";
  for (const double share : settings.format_shares) {
    text += fmt::format("{}{}", separator, share);
    separator = "/";
  }
  return text;
}

}  // namespace swiftkv
