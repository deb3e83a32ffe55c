// SPDX-License-Identifier: Apache-2.0
// Lists every kind of tier that this build has; flags, help, docs and tests walk this table.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cache/page_store.h"

namespace swiftkv {

struct PageStoreOptions {
  std::uint64_t limit_bytes = 0;  // of payloads
  std::string location;           // where the kind needs one, e.g. a directory
};

struct PageStoreRow {
  const char* name;         // the flag's word
  const char* description;  // one line for help and docs
  // Errors: what keeps the store from opening, e.g. a location that cannot be used.
  Result<std::unique_ptr<PageStore>> (*open)(const PageStoreOptions& options);
};

std::span<const PageStoreRow> AllPageStores();

// Opens a store of the kind `name`. Errors: InvalidArgument with the list of names; the store's
// own.
Result<std::unique_ptr<PageStore>> OpenPageStore(std::string_view name,
                                                 const PageStoreOptions& options);

}  // namespace swiftkv
