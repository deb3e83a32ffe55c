// SPDX-License-Identifier: Apache-2.0
// Computes attention with the vector kernels of one instruction set.
//
// Immutable and shared by all threads. Partial runs the plan's items, Merge combines the chunks of
// tiles that were cut, Score reads K again with the known log-sum-exp.
#pragma once

#include <memory>
#include <string_view>

#include "attention/kernels.h"
#include "swiftkv/attention.h"

namespace swiftkv {

inline constexpr BackendInfo kCpuBackendInfo = {
    "cpu", "vector kernels for pages of every format, from portable code to AMX"};

class CpuBackend final : public AttentionBackend {
 public:
  explicit CpuBackend(const AttentionKernels& kernels) : kernels_(kernels) {}

  const BackendInfo& info() const override { return kCpuBackendInfo; }
  Status Serves(const AttentionShape& shape, const PageFormat& format) const override;
  std::unique_ptr<AttentionPlan> Plan(const AttentionBatch& batch) const override;
  void Partial(const AttentionBatch& batch, const AttentionPlan& plan,
               const AttentionTeam& team) const override;
  void Merge(const AttentionBatch& batch, const AttentionPlan& plan,
             const AttentionTeam& team) const override;
  void Score(const AttentionBatch& batch, const AttentionPlan& plan,
             const AttentionTeam& team) const override;

 private:
  const AttentionKernels& kernels_;
};

// Errors: what ParseIsa returns, and Unsupported where this build lacks the instruction set.
Result<std::unique_ptr<AttentionBackend>> MakeCpuBackend(std::string_view isa);

}  // namespace swiftkv
