// SPDX-License-Identifier: Apache-2.0
// Keeps built graphs, the memory that they share, and computes them.
//
// Owner: the model, one thread. Graphs run one at a time, so that all share one buffer of
// activations: what a graph left there is gone when another one runs, and inputs are written before
// every run. A graph is built once for each shape in use; the least recently used goes first.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-cpp.h"
#include "model/decoder_graph.h"
#include "swiftkv/status.h"

namespace swiftkv {

class GraphRunner {
 public:
  // Allocates what a graph of `max_rows` rows and one output needs. Errors: ResourceExhausted.
  static Result<std::unique_ptr<GraphRunner>> Create(const GraphParts& parts, int threads,
                                                     int max_rows);

  // Returns the graph of this shape, ready for its inputs; valid until the next call. Errors:
  // ResourceExhausted where more memory is needed than there is.
  Result<DecoderGraph*> Prepare(const GraphShape& shape);

  // Runs it. Errors: Cancelled when `cancel`, looked at between nodes, became true.
  Status Compute(DecoderGraph* graph, const std::atomic<bool>* cancel);

  std::uint64_t memory_bytes() const;   // activations and ggml's work buffer
  std::uint64_t touched_bytes() const;  // of these, what lies in memory

 private:
  GraphRunner(const GraphParts& parts, int threads) : parts_(parts), threads_(threads) {}

  Status Allocate(DecoderGraph* graph);

  GraphParts parts_;
  int threads_;
  ggml_gallocr_ptr allocator_;
  std::vector<std::unique_ptr<DecoderGraph>> graphs_;  // most recently used last
  std::unique_ptr<std::uint8_t[]> work_;               // ggml's, between two barriers of one node
  std::size_t work_size_ = 0;
};

}  // namespace swiftkv
