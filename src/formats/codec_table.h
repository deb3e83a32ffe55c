// SPDX-License-Identifier: Apache-2.0
// Lists every page format that this build serves; flags, help, docs, tests and benches walk this
// table.
#pragma once

#include <span>
#include <string_view>

#include "swiftkv/page_codec.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Returns all codecs in the order in which help lists them.
std::span<const PageCodec* const> AllCodecs();

// Returns the codec called `name`, or InvalidArgument with the list of names.
Result<const PageCodec*> FindCodec(std::string_view name);

}  // namespace swiftkv
