// SPDX-License-Identifier: Apache-2.0
// Words the summary of a model, for people and as JSON (docs/json.md).
#pragma once

#include <string>

#include "tools/model_summary.h"

namespace swiftkv {

// Returns the lines of `inspect`; every string of the file is made printable.
std::string InspectText(const ModelSummary& summary, const GgufFile& file, bool with_tensors);

// Returns one line without a line break.
std::string InspectJson(const ModelSummary& summary, const GgufFile& file, bool with_tensors);

}  // namespace swiftkv
