// SPDX-License-Identifier: Apache-2.0
// Loads a model and stores a sequence in its cache, to look at what that takes.
#pragma once

#include "swiftkv/status.h"
#include "tools/inspect_options.h"
#include "tools/memory_view.h"

namespace swiftkv {

// Loads the model as `run` does and computes a sequence of the calibration text's tokens, again and
// again from its beginning where it is shorter. Errors: those of loading; InvalidArgument where the
// context does not hold the tokens; ResourceExhausted where --kv-memory does not; Cancelled.
Result<MemoryView> InspectMemory(const InspectOptions& options);

}  // namespace swiftkv
