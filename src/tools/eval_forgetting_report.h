// SPDX-License-Identifier: Apache-2.0
// Words what forgetting costs: one JSON line for programs, a table for people.
#pragma once

#include <string>
#include <vector>

#include "tools/eval_cells.h"
#include "tools/eval_forgetting.h"

namespace swiftkv {

// Where figures come from.
struct ForgettingSource {
  std::string model;        // path
  std::string text;         // path, or "calibration"
  std::string text_sha256;  // of the text
};

// Returns the JSON object of `eval --json` without a line break (docs/json.md); `report.rows` are
// of `cells`.
std::string ForgettingJson(const ForgettingSource& source, const std::vector<EvalCell>& cells,
                           const ForgettingReport& report);

// Returns the table and what it was measured on, each line with a line break.
std::string ForgettingTable(const ForgettingSource& source, const std::vector<EvalCell>& cells,
                            const ForgettingReport& report);

}  // namespace swiftkv
