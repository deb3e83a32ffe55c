// SPDX-License-Identifier: Apache-2.0
// Reads a model's shape from the config.json that Hugging Face publishes with it.
//
// The file comes from strangers: nothing in it makes more than an error of one sentence that names
// the key. What changes the cache in a way that is not planned for is refused by name.
#pragma once

#include <string>

#include "swiftkv/status.h"
#include "tools/plan_shape.h"

namespace swiftkv {

// Parses the text of a config.json; `path` is for messages. `weights_type` as --weights-type, empty
// for what the file says. Errors: DataLoss for what is missing or senseless, Unsupported for a kind
// of attention that is not planned for; both name the key.
Result<PlanModel> ParsePlanConfig(const std::string& path, const std::string& text,
                                  const std::string& weights_type);

// Reads the file. Errors: NotFound; DataLoss for more than a megabyte; those of ParsePlanConfig.
Result<PlanModel> ReadPlanConfig(const std::string& path, const std::string& weights_type);

}  // namespace swiftkv
