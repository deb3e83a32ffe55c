// SPDX-License-Identifier: Apache-2.0
// Computes attention the obvious way, in double, from decoded pages: the oracle of every other
// backend.
#pragma once

#include <memory>
#include <string_view>

#include "swiftkv/attention.h"

namespace swiftkv {

inline constexpr BackendInfo kReferenceBackendInfo = {
    "reference", "decodes every page and sums in double; slow, the oracle of the others"};

// Serves every head size and format that the codecs serve. Immutable; one thread computes a row's
// heads whole, so there is nothing to merge.
class ReferenceBackend final : public AttentionBackend {
 public:
  const BackendInfo& info() const override { return kReferenceBackendInfo; }
  Status Serves(const AttentionShape& shape, const PageFormat& format) const override;
  std::unique_ptr<AttentionPlan> Plan(const AttentionBatch& batch) const override;
  void Partial(const AttentionBatch& batch, const AttentionPlan& plan,
               const AttentionTeam& team) const override;
  void Merge(const AttentionBatch& batch, const AttentionPlan& plan,
             const AttentionTeam& team) const override;
  void Score(const AttentionBatch& batch, const AttentionPlan& plan,
             const AttentionTeam& team) const override;
};

// Errors: InvalidArgument for an isa other than "auto" and "portable".
Result<std::unique_ptr<AttentionBackend>> MakeReferenceBackend(std::string_view isa);

}  // namespace swiftkv
