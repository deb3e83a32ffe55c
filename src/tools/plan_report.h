// SPDX-License-Identifier: Apache-2.0
// Words a plan: one JSON line for programs (docs/json.md), a table and its reasons for people.
#pragma once

#include <string>

#include "tools/plan_table.h"

namespace swiftkv {

// Returns one line without a line break.
std::string PlanJson(const PlanTable& table, const PlanOptions& options);

std::string PlanText(const PlanTable& table, const PlanOptions& options);

}  // namespace swiftkv
