// SPDX-License-Identifier: Apache-2.0
// Runs all phases of attention with a team of threads of its own.
#include <cstddef>
#include <memory>
#include <new>

#include "attention/shape_check.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/thread_team.h"
#include "swiftkv/attention.h"

namespace swiftkv {
namespace {

struct FreeAligned {
  void operator()(std::byte* bytes) const {
    ::operator delete[](bytes, std::align_val_t{kPageAlignment});
  }
};

}  // namespace

Status Attend(const AttentionBackend& backend, const AttentionBatch& batch, int num_threads) {
  SKV_CHECK(num_threads >= 1);
  SKV_CHECK(batch.sink == nullptr || batch.lse != nullptr, "scores are computed from lse");
  SKV_RETURN_IF_ERROR(CheckShape(batch.shape));
  for (const AttentionSequence& sequence : batch.sequences) {
    for (const PageRun& run : sequence.runs) {
      SKV_RETURN_IF_ERROR(backend.Serves(batch.shape, run.format));
    }
  }
  const std::unique_ptr<AttentionPlan> plan = backend.Plan(batch);
  const std::unique_ptr<std::byte[], FreeAligned> scratch(static_cast<std::byte*>(
      ::operator new[](plan->scratch_bytes(), std::align_val_t{kPageAlignment})));
  ThreadTeam threads(num_threads);
  const auto run_phase = [&](auto phase) {
    threads.Run([&](int thread, int count) {
      (backend.*phase)(batch, *plan, {thread, count, scratch.get()});
    });
  };
  run_phase(&AttentionBackend::Partial);
  if (plan->needs_merge()) run_phase(&AttentionBackend::Merge);
  if (batch.sink != nullptr) run_phase(&AttentionBackend::Score);
  return Status::Ok();
}

}  // namespace swiftkv
