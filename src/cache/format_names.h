// SPDX-License-Identifier: Apache-2.0
// Returns the names of a page's formats. Layer: cache. Pure.
#pragma once

#include "swiftkv/kv_format.h"
#include "swiftkv/page_codec.h"
#include "swiftkv/page_layout.h"

namespace swiftkv {

inline KvFormat NamesOf(const PageFormat& format) {
  return {.key = format.key->info().name, .value = format.value->info().name};
}

}  // namespace swiftkv
