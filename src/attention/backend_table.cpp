// SPDX-License-Identifier: Apache-2.0
// Lists every attention backend that this build has; flags, help, docs, tests and benches walk
// this table.
#include <string>

#include "attention/cpu_backend.h"
#include "attention/reference_backend.h"
#include "swiftkv/attention.h"

namespace swiftkv {
namespace {

constexpr BackendRow kBackends[] = {
    {kReferenceBackendInfo, MakeReferenceBackend},
    {kCpuBackendInfo, MakeCpuBackend},
};

}  // namespace

std::span<const BackendRow> AllAttentionBackends() { return kBackends; }

Result<std::unique_ptr<AttentionBackend>> MakeAttentionBackend(std::string_view name,
                                                               std::string_view isa) {
  std::string names;
  for (const BackendRow& row : kBackends) {
    if (name == row.info.name) return row.make(isa);
    names += (names.empty() ? "" : ", ") + std::string(row.info.name);
  }
  return Status::InvalidArgument("the attention backends are " + names + ", not " +
                                 std::string(name));
}

}  // namespace swiftkv
