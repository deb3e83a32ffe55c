// SPDX-License-Identifier: Apache-2.0
// Knows the shapes of widely used models, so that `plan` needs no file of them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "swiftkv/status.h"
#include "tools/plan_shape.h"

namespace swiftkv {

std::span<const PlanShape> AllPlanPresets();

// Returns the names with commas between.
std::string PlanPresetNames();

// Finds a preset by its name, in any case. Errors: InvalidArgument with the list of names.
Result<const PlanShape*> FindPlanPreset(std::string_view name);

}  // namespace swiftkv
