// SPDX-License-Identifier: Apache-2.0
// Names the pairs of key and value formats that `--kv` takes.
#pragma once

#include <span>
#include <string_view>

#include "swiftkv/page_layout.h"
#include "swiftkv/status.h"

namespace swiftkv {

// One row of the table. Any two codecs make a page; these have a name of their own.
struct NamedPageFormat {
  const char* name;         // "k8v4"
  const char* description;  // one line for help and docs
  PageFormat format;
};

// Returns all named pairs in the order in which help lists them.
std::span<const NamedPageFormat> AllPageFormats();

// Returns the pair called `name`. Errors: InvalidArgument with the list of names.
Result<PageFormat> FindPageFormat(std::string_view name);

}  // namespace swiftkv
