// SPDX-License-Identifier: Apache-2.0
// Makes the passes that a row of `bench attention` is measured with: the kernels themselves, a
// plain read of as many bytes, and a plain read of the same pages in the order of the kernels.
//
// All outlive what they were made of: pages, probes, backend.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "swiftkv/attention.h"
#include "tools/bench_pages.h"
#include "tools/bench_pass.h"
#include "tools/bench_probes.h"

namespace swiftkv {

// Attention over all turns and layers, phase by phase as in the model's graph.
class KernelPass {
 public:
  // Errors: what the backend's Serves() returns, ResourceExhausted.
  static Result<std::unique_ptr<KernelPass>> Make(const AttentionBackend* backend,
                                                  BenchPages* pages);

  void operator()(const PassThread& thread) const;

 private:
  struct FreeScratch {
    void operator()(std::byte* memory) const;
  };

  KernelPass(const AttentionBackend* backend, BenchPages* pages)
      : backend_(backend), pages_(pages) {}

  const AttentionBackend* backend_;
  BenchPages* pages_;
  std::vector<std::unique_ptr<AttentionPlan>> plans_;  // of layers; one where all have the same
                                                       // extents
  std::unique_ptr<std::byte, FreeScratch> scratch_;
};

// The arena from its first byte to its last, a stretch for each thread.
class StreamPass {
 public:
  StreamPass(const MachineProbes& probes, const std::byte* data, std::size_t bytes)
      : probes_(probes), data_(data), bytes_(bytes) {}

  void operator()(const PassThread& thread) const;

 private:
  MachineProbes probes_;
  const std::byte* data_;
  std::size_t bytes_;
};

// The pages of all turns and layers, each by the thread and at the place in the order at which the
// cpu backend takes it.
class RawPass {
 public:
  RawPass(const MachineProbes& probes, BenchPages* pages, int num_threads);

  void operator()(const PassThread& thread) const;

  // Pages that all threads read together.
  std::size_t num_pages() const;

 private:
  MachineProbes probes_;
  std::size_t page_bytes_;
  std::vector<std::vector<const std::byte*>> pages_;  // [threads]
};

}  // namespace swiftkv
