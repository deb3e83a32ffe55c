// SPDX-License-Identifier: Apache-2.0
// Sets the program's own counts of memory beside the kernel's, with a name for every difference.
//
// Everything is counted once: the cache's pages and metadata (KvBalance), mapped weights, and what
// lies on the heap, piece by piece. docs/json.md defines every figure.
#pragma once

#include <cstdint>
#include <string>

#include "engine/kv_memory.h"
#include "model/language_model.h"
#include "swiftkv/kv_cache.h"
#include "swiftkv/status.h"
#include "tools/kernel_view.h"
#include "tools/kv_report.h"
#include "tools/model_stack.h"

namespace swiftkv {

// What the heap holds, as far as somebody counts it.
struct HeapCounts {
  std::uint64_t repacked_weights_bytes = 0;
  std::uint64_t packed_weights_bytes = 0;
  std::uint64_t activation_bytes = 0;  // touched
  std::uint64_t key_guide_bytes = 0;   // of formats with scales
  std::uint64_t vocabulary_bytes = 0;  // vocabulary and chat template, as the allocator counts them
  std::uint64_t kv_metadata_bytes = 0;  // sequences and page tables
  std::uint64_t other_bytes = 0;        // given out beside these: graphs, records of tensors
  std::uint64_t kept_bytes = 0;         // by the allocator, from what was given back

  std::uint64_t total() const;
};

struct MemoryView {
  std::string model;  // path
  KvReport report;    // of the sequence
  AutomaticKvMemory automatic;
  HeapCounts heap;
  KernelView kernel;

  // Counts that have mappings of their own.
  std::uint64_t counted_pages_bytes() const;
  std::uint64_t counted_metadata_bytes() const;  // without what lies on the heap
  std::uint64_t counted_total_bytes() const;
};

// Views the process as it is. Errors: those of MakeKvReport and ViewThisProcess.
Result<MemoryView> MakeMemoryView(const ModelStack& stack);

}  // namespace swiftkv
