// SPDX-License-Identifier: Apache-2.0
// Keeps blocks in the process's heap, the least recently used ones leaving first.
#pragma once

#include <memory>

#include "cache/page_store_table.h"

namespace swiftkv {

// Never fails; a limit of 0 holds nothing.
Result<std::unique_ptr<PageStore>> OpenRamPageStore(const PageStoreOptions& options);

}  // namespace swiftkv
