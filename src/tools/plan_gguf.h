// SPDX-License-Identifier: Apache-2.0
// Reads from a GGUF's metadata what a plan needs, also of models that this build does not run.
#pragma once

#include <string>

#include "swiftkv/status.h"
#include "tools/plan_shape.h"

namespace swiftkv {

// Reads metadata and the table of tensors; weights are neither read nor mapped. Errors: those of
// GgufFile::Open; DataLoss for missing or senseless metadata; Unsupported for a kind of attention
// that is not planned for.
Result<PlanModel> ReadPlanGguf(const std::string& path);

}  // namespace swiftkv
