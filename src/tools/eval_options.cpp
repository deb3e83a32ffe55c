// SPDX-License-Identifier: Apache-2.0
// Parses the command line of `swiftkv eval`.
#include "tools/eval_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/status_macros.h"
#include "engine/quality_evaluation.h"
#include "formats/page_format_table.h"
#include "swiftkv/attention.h"
#include "tools/flag_visitor.h"
#include "tools/printable_text.h"

namespace swiftkv {
namespace {

constexpr const char* kDescription =
    "Measures what page formats of the KV cache lose on a model: how far the distributions of the\n"
    "next token are from those over an exact cache. Figures on the default text are kept, and\n"
    "`--kv` then knows them. With --policies, measures what forgetting loses, on texts, copies "
    "and\n"
    "planted facts, against the whole cache in f16.";

constexpr const char* kAllFormats = "all";

void AddOnce(const PageFormat& format, std::vector<PageFormat>* formats) {
  if (std::find(formats->begin(), formats->end(), format) == formats->end()) {
    formats->push_back(format);
  }
}

Status Validate(const EvalOptions& options) {
  SKV_RETURN_IF_ERROR(FormatsToMeasure(options.formats).status());
  SKV_RETURN_IF_ERROR(CellsToMeasure(options).status());
  const std::string& weights = options.weights;
  if (!weights.empty() && weights != "f16" && weights != "asis") {
    return Status::InvalidArgument(
        fmt::format("--weights accepts f16 or asis, got \"{}\"", PrintableExcerpt(weights, 60)));
  }
  if (options.model.context != 0 && options.model.context < kLeastWindowTokens) {
    return Status::InvalidArgument(
        fmt::format("--context accepts 0 or at least {} tokens to measure on, got \"{}\"",
                    kLeastWindowTokens, options.model.context));
  }
  return MakeAttentionBackend(options.model).status();
}

}  // namespace

std::string BudgetSplitNames() {
  std::string names;
  for (const BudgetSplitInfo& split : AllBudgetSplits()) {
    names += (names.empty() ? "" : ", ") + std::string(split.name);
  }
  return names;
}

Result<EvalOptions> ParseEvalOptions(std::span<const char* const> arguments) {
  EvalOptions options;
  CLI::App app(kDescription, "swiftkv eval");
  FlagVisitor visitor(&app);
  VisitOptions(visitor, options);
  SKV_RETURN_IF_ERROR(ParseArguments(&app, arguments));
  SKV_RETURN_IF_ERROR(Validate(options));
  return options;
}

bool NamesAll(const NameList& names) {
  return names.names.empty() ||
         std::find(names.names.begin(), names.names.end(), kAllFormats) != names.names.end();
}

Result<std::vector<PageFormat>> FormatsToMeasure(const NameList& names) {
  SKV_ASSIGN_OR_RETURN(const PageFormat baseline, FindPageFormat("f16"));
  std::vector<PageFormat> formats = {baseline};
  if (NamesAll(names)) {
    for (const NamedPageFormat& row : AllPageFormats()) AddOnce(row.format, &formats);
  }
  for (const std::string& name : names.names) {
    if (name == kAllFormats) continue;
    SKV_ASSIGN_OR_RETURN(const PageFormat format, ParsePageFormat(name));
    AddOnce(format, &formats);
  }
  return formats;
}

Result<std::vector<EvalCell>> CellsToMeasure(const EvalOptions& options) {
  EvalCellLists lists;
  SKV_ASSIGN_OR_RETURN(
      lists.formats,
      FormatsToMeasure(options.formats.names.empty() ? NameList{{"f16"}} : options.formats));
  SKV_ASSIGN_OR_RETURN(lists.policies,
                       ParsePolicyList(options.policies.empty() ? kNoPolicy : options.policies));
  SKV_ASSIGN_OR_RETURN(lists.ratios, ParseRatioList(options.ratios.names));
  for (const std::string& name : options.splits.names) {
    SKV_ASSIGN_OR_RETURN(lists.splits.emplace_back(), FindBudgetSplit(name));
  }
  lists.kept_as = options.kept_as.names;
  return ListEvalCells(lists);
}

}  // namespace swiftkv
