// SPDX-License-Identifier: Apache-2.0
// Collects counts first and asks the kernel last, so that what asking takes is in neither.
#include "tools/memory_view.h"

#include "base/process_memory.h"
#include "base/saturating.h"
#include "base/status_macros.h"

namespace swiftkv {

std::uint64_t HeapCounts::total() const {
  return repacked_weights_bytes + packed_weights_bytes + activation_bytes + key_guide_bytes +
         vocabulary_bytes + kv_metadata_bytes + other_bytes + kept_bytes;
}

std::uint64_t MemoryView::counted_pages_bytes() const {
  return report.balance.mapped_bytes - report.balance.metadata_bytes;
}

std::uint64_t MemoryView::counted_metadata_bytes() const {
  return report.balance.metadata_bytes - heap.kv_metadata_bytes;
}

std::uint64_t MemoryView::counted_total_bytes() const {
  return report.balance.mapped_bytes + report.model.mapped_weights_bytes + heap.total() -
         heap.kv_metadata_bytes;
}

Result<MemoryView> MakeMemoryView(const ModelStack& stack) {
  MemoryView view;
  view.model = stack.path;
  view.automatic = stack.automatic_memory;
  SKV_ASSIGN_OR_RETURN(view.report, MakeKvReport(stack));
  const ModelMemory& model = view.report.model;
  const HeapMemory heap = ReadHeapMemory();
  const std::vector<const std::byte*> frames = FrameBases(*stack.session);
  SKV_ASSIGN_OR_RETURN(view.kernel, ViewThisProcess(frames));

  HeapCounts& counts = view.heap;
  counts.repacked_weights_bytes = model.repacked_weights_bytes;
  counts.packed_weights_bytes = model.packed_weights_bytes;
  counts.activation_bytes = model.touched_activation_bytes;
  counts.key_guide_bytes = stack.key_guide_bytes;
  counts.vocabulary_bytes = stack.vocabulary_bytes;
  counts.kv_metadata_bytes = view.report.balance.metadata_heap_bytes;
  const std::uint64_t untouched =
      SaturatingSubtract(model.activation_bytes, counts.activation_bytes);
  counts.other_bytes = SaturatingSubtract(heap.used_bytes, counts.total() + untouched);
  counts.kept_bytes = heap.kept_bytes;
  return view;
}

}  // namespace swiftkv
