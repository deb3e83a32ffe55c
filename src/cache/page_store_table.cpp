// SPDX-License-Identifier: Apache-2.0
// Holds the one table of tiers.
#include "cache/page_store_table.h"

#include <array>

#include "cache/ram_page_store.h"

namespace swiftkv {
namespace {

constexpr std::array<PageStoreRow, 1> kStores = {{
    {"ram", "memory of this process outside the arena; lost when it ends", OpenRamPageStore},
}};

}  // namespace

std::span<const PageStoreRow> AllPageStores() { return kStores; }

Result<std::unique_ptr<PageStore>> OpenPageStore(std::string_view name,
                                                 const PageStoreOptions& options) {
  std::string names;
  for (const PageStoreRow& row : kStores) {
    if (name == row.name) return row.open(options);
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return Status::InvalidArgument("a tier is one of " + names + ", not: " + std::string(name));
}

}  // namespace swiftkv
