// SPDX-License-Identifier: Apache-2.0
// Implements the passes.
#include "tools/bench_attention_passes.h"

#include <algorithm>
#include <cstdlib>

#include "attention/work_plan.h"
#include "base/byte_size.h"
#include "base/status_macros.h"

namespace swiftkv {
namespace {

// Keeps sums that nobody wants from being left out by the compiler.
std::atomic<std::uint64_t> sink{0};

// Layers that need a plan each.
int PlannedLayers(const BenchPagesSpec& spec) { return spec.removed > 0 ? spec.layers : 1; }

}  // namespace

void KernelPass::FreeScratch::operator()(std::byte* memory) const { std::free(memory); }

Result<std::unique_ptr<KernelPass>> KernelPass::Make(const AttentionBackend* backend,
                                                     BenchPages* pages) {
  SKV_RETURN_IF_ERROR(backend->Serves(pages->spec().shape, pages->spec().format));
  std::unique_ptr<KernelPass> pass(new KernelPass(backend, pages));
  std::size_t bytes = 0;
  for (int layer = 0; layer < PlannedLayers(pages->spec()); ++layer) {
    pass->plans_.push_back(backend->Plan(pages->batch(0, layer)));
    bytes = std::max(bytes, pass->plans_.back()->scratch_bytes());
  }
  bytes = (bytes / kPageAlignment + 1) * kPageAlignment;
  pass->scratch_.reset(static_cast<std::byte*>(std::aligned_alloc(kPageAlignment, bytes)));
  if (pass->scratch_ == nullptr) {
    return Status::ResourceExhausted("not enough memory for the scratch of attention: " +
                                     FormatByteSize(bytes));
  }
  return pass;
}

void KernelPass::operator()(const PassThread& thread) const {
  const AttentionTeam team = {thread.thread, thread.num_threads, scratch_.get()};
  for (int turn = 0; turn < pages_->spec().turns; ++turn) {
    for (int layer = 0; layer < pages_->spec().layers; ++layer) {
      const AttentionBatch batch = pages_->batch(turn, layer);
      const AttentionPlan& plan = *plans_[static_cast<std::size_t>(layer) % plans_.size()];
      backend_->Partial(batch, plan, team);
      thread.barrier->Wait();
      if (!plan.needs_merge()) continue;
      backend_->Merge(batch, plan, team);
      thread.barrier->Wait();
    }
  }
}

void StreamPass::operator()(const PassThread& thread) const {
  const std::size_t lines = bytes_ / 64;
  const auto count = static_cast<std::size_t>(thread.num_threads);
  const auto index = static_cast<std::size_t>(thread.thread);
  const std::size_t first = lines * index / count;
  const std::size_t end = lines * (index + 1) / count;
  sink += probes_.read(data_ + first * 64, (end - first) * 64);
}

RawPass::RawPass(const MachineProbes& probes, BenchPages* pages, int num_threads)
    : probes_(probes),
      page_bytes_(pages->work().page_bytes),
      pages_(static_cast<std::size_t>(num_threads)) {
  std::vector<WorkPlan> plans;
  for (int layer = 0; layer < PlannedLayers(pages->spec()); ++layer) {
    plans.emplace_back(pages->batch(0, layer));
  }
  for (int turn = 0; turn < pages->spec().turns; ++turn) {
    for (int layer = 0; layer < pages->spec().layers; ++layer) {
      const AttentionBatch batch = pages->batch(turn, layer);
      const WorkPlan& plan = plans[static_cast<std::size_t>(layer) % plans.size()];
      for (std::size_t i = 0; i < plan.items().size(); ++i) {
        const WorkItem& item = plan.items()[i];
        const RowTile& tile = plan.tile(item);
        const std::size_t place = i % pages_.size();
        const bool forth = i / pages_.size() % 2 == 0;  // as WorkPlan::ItemOf
        std::vector<const std::byte*>& list = pages_[forth ? place : pages_.size() - 1 - place];
        for (const PageSpan& span : plan.spans(item)) {
          const PageRun& run =
              batch.sequences[static_cast<std::size_t>(tile.sequence)].runs[span.run];
          for (int page = span.first_page; page < span.end_page; ++page) {
            list.push_back(run.Page(page, tile.kv_head));
          }
        }
      }
    }
  }
}

void RawPass::operator()(const PassThread& thread) const {
  const auto& list = pages_[static_cast<std::size_t>(thread.thread)];
  if (list.empty()) return;
  sink += probes_.read_scattered({list.data(), list.size(), page_bytes_});
}

std::size_t RawPass::num_pages() const {
  std::size_t count = 0;
  for (const auto& list : pages_) count += list.size();
  return count;
}

}  // namespace swiftkv
