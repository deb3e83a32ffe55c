// SPDX-License-Identifier: Apache-2.0
// Reads the lists of page formats that benches take.
#pragma once

#include <string>
#include <vector>

#include "engine/option_field.h"
#include "swiftkv/page_layout.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct BenchFormat {
  std::string name;  // as it was given
  PageFormat format;
};

// Whether the list is "all", of which benches leave out what cannot be measured.
bool TakesAllFormats(const NameList& names);

// Returns the formats of a list: named pairs, KEYS/VALUES for any two codecs, or "all" for every
// named pair but f32, which serves as an oracle. Errors: InvalidArgument with the list of names.
Result<std::vector<BenchFormat>> ListBenchFormats(const NameList& names);

}  // namespace swiftkv
