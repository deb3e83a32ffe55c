// SPDX-License-Identifier: Apache-2.0
// Says in sentences what drives the figures of a plan, what does not fit and what would.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/plan_table.h"

namespace swiftkv {

// Layers that store alike, in the order of their first one.
struct PlannedGroup {
  ShapedLayer layer;
  int layers = 0;
};
std::vector<PlannedGroup> GroupPlannedLayers(const PlanModel& model);

// Returns "2,684,354,560".
std::string GroupedDigits(std::uint64_t number);

// Each returns lines, with line breaks.
std::string PlanDrivers(const PlanTable& table, const PlanOptions& options);
std::string PlanVerdict(const PlanTable& table, const PlanOptions& options);

}  // namespace swiftkv
