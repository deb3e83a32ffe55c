// SPDX-License-Identifier: Apache-2.0
// Lists the cells that `eval` measures: formats x policies x ratios, with the controls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/forgetting_evaluation.h"
#include "engine/kept_formats.h"
#include "policy/budget_split.h"
#include "swiftkv/page_layout.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct EvalCell {
  ForgettingCell cell;
  std::string policy;  // canonical text, or kNoPolicy
  double ratio = 0;
  BudgetSplit split = BudgetSplit::kUniform;
  std::string kept_as = kKeptAsStored;  // "int8=0.5": a format that part of the kept tokens go into
};

// What cells are made of.
struct EvalCellLists {
  std::vector<PageFormat> formats;
  std::vector<PolicyChoice> policies;
  std::vector<double> ratios;
  std::vector<BudgetSplit> splits;
  std::vector<std::string> kept_as;
};

// Reads policies with commas between, each with its parameters: "keydiff,snapkv:window=32,pool=3".
// `all` stands for every one, `none` for none. Errors: those of ParsePolicy.
Result<std::vector<PolicyChoice>> ParsePolicyList(std::string_view text);

// Reads ratios above 0 and below 1. Errors: InvalidArgument.
Result<std::vector<double>> ParseRatioList(const std::vector<std::string>& names);

// Returns the cells of every format: first all kept, then for every ratio `random` and the
// policies, each with every split and every way to keep. Controls are split uniformly, for their
// scores say nothing of heads. Errors: InvalidArgument for a format or share in `kept_as`.
Result<std::vector<EvalCell>> ListEvalCells(const EvalCellLists& lists);

// Returns the cell of the same format, policy, ratio, split and way to keep, by its index;
// cells.size() where there is none.
std::size_t FindCell(const std::vector<EvalCell>& cells, const EvalCell& like);

// Returns the control of the same format and ratio, by its index; cells.size() where there is none.
std::size_t FindControl(const std::vector<EvalCell>& cells, const EvalCell& of,
                        std::string_view policy);

}  // namespace swiftkv
