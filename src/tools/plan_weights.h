// SPDX-License-Identifier: Apache-2.0
// Knows how many bits a weight takes in the types that models are published and quantised in.
#pragma once

#include <string>
#include <string_view>

#include "swiftkv/status.h"

namespace swiftkv {

struct WeightType {
  std::string name;  // "q4_k_m"
  double bits = 0;   // of a weight, scales included, on average over a file
};

// Returns the names with commas between.
std::string WeightTypeNames();

// Reads a type's name, in any case, or a number of bits. Errors: InvalidArgument with the names.
Result<WeightType> ParseWeightType(std::string_view text);

}  // namespace swiftkv
