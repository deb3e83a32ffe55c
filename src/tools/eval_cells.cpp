// SPDX-License-Identifier: Apache-2.0
// Reads lists and multiplies them out.
#include "tools/eval_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/status_macros.h"
#include "cache/format_names.h"
#include "engine/kept_formats.h"

namespace swiftkv {
namespace {

constexpr const char* kRandom = "random";
constexpr const char* kSinkRecent = "sink_recent";

std::vector<std::string> SplitAt(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

Result<double> Number(const std::string& text, const char* what) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size()) return value;
  return Status::InvalidArgument(fmt::format("{} is a number, not: {}", what, text));
}

bool IsControl(const PolicyChoice& choice) {
  const std::string_view name = choice.policy->info().name;
  return name == kRandom || name == kSinkRecent;
}

class CellMaker {
 public:
  explicit CellMaker(const EvalCellLists& lists) : lists_(lists) {}

  Result<std::vector<EvalCell>> Make() {
    SKV_ASSIGN_OR_RETURN(random_, ParsePolicy(kRandom));
    for (const PageFormat& format : lists_.formats) {
      EvalCell whole;
      whole.cell.format = format;
      whole.policy = kNoPolicy;
      cells_.push_back(std::move(whole));
      if (lists_.policies.empty()) continue;
      for (const double ratio : lists_.ratios) {
        SKV_RETURN_IF_ERROR(Add(format, ratio, random_, BudgetSplit::kUniform, kKeptAsStored));
        for (const PolicyChoice& policy : lists_.policies) {
          SKV_RETURN_IF_ERROR(AddPolicy(format, ratio, policy));
        }
      }
    }
    return std::move(cells_);
  }

 private:
  Status AddPolicy(const PageFormat& format, double ratio, const PolicyChoice& policy) {
    for (const BudgetSplit split : lists_.splits) {
      for (const std::string& kept_as : lists_.kept_as) {
        const BudgetSplit of_cell = IsControl(policy) ? BudgetSplit::kUniform : split;
        SKV_RETURN_IF_ERROR(Add(format, ratio, policy, of_cell, kept_as));
      }
    }
    return Status::Ok();
  }

  Status Add(const PageFormat& format, double ratio, const PolicyChoice& policy, BudgetSplit split,
             const std::string& kept_as) {
    EvalCell cell;
    cell.cell.format = format;
    cell.policy = CanonicalPolicy(policy);
    cell.ratio = ratio;
    cell.split = split;
    cell.kept_as = kept_as;
    auto rule = std::make_shared<ForgettingRule>();
    rule->format = NamesOf(format);
    rule->policy = policy;
    rule->budget.ratio = ratio;
    rule->budget.split = split;
    rule->schedule.when = CompactionSchedule::When::kAfterPrompt;
    rule->kept_formats = {rule->format};
    rule->name = cell.policy;
    SKV_ASSIGN_OR_RETURN(const std::optional<SmallerFormat> smaller, ParseKeptAs(kept_as));
    if (smaller) {
      if (!IsSmaller(smaller->format, format)) return Status::Ok();  // nothing to win
      KeepPartIn(*smaller, rule.get());
    }
    // Of no importance: cells share nothing.
    rule->own_recipes.prompt = rule->figures_recipes.prompt = cell.policy;
    cell.cell.rule = std::move(rule);
    if (FindCell(cells_, cell) == cells_.size()) cells_.push_back(std::move(cell));
    return Status::Ok();
  }

  const EvalCellLists& lists_;
  PolicyChoice random_;
  std::vector<EvalCell> cells_;
};

}  // namespace

Result<std::vector<PolicyChoice>> ParsePolicyList(std::string_view text) {
  // A part with a value and no colon goes on with the parameters of the policy before it.
  std::vector<std::string> texts;
  for (const std::string& part : SplitAt(text, ',')) {
    const bool goes_on = part.find('=') != std::string::npos &&
                         part.find(':') == std::string::npos && !texts.empty();
    if (goes_on) {
      texts.back() += "," + part;
    } else {
      texts.push_back(part);
    }
  }
  std::vector<PolicyChoice> policies;
  for (const std::string& one : texts) {
    if (one == kNoPolicy) continue;
    if (one == "all") {
      for (const EvictionPolicy* policy : AllPolicies()) policies.push_back({policy, {}});
      continue;
    }
    SKV_ASSIGN_OR_RETURN(policies.emplace_back(), ParsePolicy(one));
  }
  return policies;
}

Result<std::vector<double>> ParseRatioList(const std::vector<std::string>& names) {
  std::vector<double> ratios;
  for (const std::string& name : names) {
    SKV_ASSIGN_OR_RETURN(const double ratio, Number(name, "a ratio"));
    if (!(ratio > 0 && ratio < 1)) {
      return Status::InvalidArgument(fmt::format(
          "a ratio is the fraction removed, above 0 (which every format is measured with anyway) "
          "and below 1, not: {}",
          name));
    }
    if (std::find(ratios.begin(), ratios.end(), ratio) == ratios.end()) ratios.push_back(ratio);
  }
  return ratios;
}

Result<std::vector<EvalCell>> ListEvalCells(const EvalCellLists& lists) {
  return CellMaker(lists).Make();
}

std::size_t FindCell(const std::vector<EvalCell>& cells, const EvalCell& like) {
  const auto found = std::find_if(cells.begin(), cells.end(), [&like](const EvalCell& cell) {
    return cell.cell.format == like.cell.format && cell.policy == like.policy &&
           cell.ratio == like.ratio && cell.split == like.split && cell.kept_as == like.kept_as;
  });
  return static_cast<std::size_t>(found - cells.begin());
}

std::size_t FindControl(const std::vector<EvalCell>& cells, const EvalCell& of,
                        std::string_view policy) {
  const auto found = std::find_if(cells.begin(), cells.end(), [&](const EvalCell& cell) {
    return cell.cell.rule != nullptr && policy == cell.cell.rule->policy.policy->info().name &&
           cell.kept_as == kKeptAsStored && cell.cell.format == of.cell.format &&
           cell.ratio == of.ratio;
  });
  return static_cast<std::size_t>(found - cells.begin());
}

}  // namespace swiftkv
