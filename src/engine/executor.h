// SPDX-License-Identifier: Apache-2.0
// Carries a StepPlan out: reserve, one forward pass, commit. Layer: engine.
//
// Owner: the engine's thread. The executor decides nothing: what to run is the plan's, what to do
// with the logits is the caller's.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "engine/step_plan.h"
#include "model/language_model.h"
#include "swiftkv/kv_cache.h"
#include "swiftkv/status.h"

namespace swiftkv {

class Executor {
 public:
  // Both must outlive the executor.
  Executor(LanguageModel* model, KvCache* cache) : model_(model), cache_(cache) {}

  // Computes the slices and counts their tokens in the cache. Returns the wanted logits, [outputs,
  // vocab_size] f32 in slice order, valid until the next call. Errors: ResourceExhausted when the
  // cache has no room for all slices, and those of LanguageModel::Forward; no slice's length has
  // changed then.
  Result<std::span<const float>> Execute(const StepPlan& plan, const std::atomic<bool>* cancel);

 private:
  LanguageModel* model_;
  KvCache* cache_;
  std::vector<BatchSlice> slices_;  // scratch of Execute
};

}  // namespace swiftkv
