// SPDX-License-Identifier: Apache-2.0
// Runs one step over the paged cache.
#include "engine/executor.h"

#include "base/status_macros.h"

namespace swiftkv {

Result<std::span<const float>> Executor::Execute(const StepPlan& plan,
                                                 const std::atomic<bool>* cancel) {
  slices_.clear();
  for (const PlannedSlice& slice : plan.slices) {
    SKV_RETURN_IF_ERROR(cache_->Reserve(slice.rows.sequence, slice.rows.num_rows));
    slices_.push_back(slice.rows);
  }
  if (slices_.empty()) return std::span<const float>();
  SKV_ASSIGN_OR_RETURN(
      std::span<const float> logits,
      model_->Forward(cache_, ModelBatch{.tokens = plan.tokens, .slices = slices_}, cancel));
  for (const BatchSlice& slice : slices_) {
    const auto first = static_cast<std::size_t>(slice.first_row);
    const auto rows = static_cast<std::size_t>(slice.num_rows);
    cache_->Commit(slice.sequence, std::span(plan.tokens).subspan(first, rows));
  }
  return logits;
}

}  // namespace swiftkv
