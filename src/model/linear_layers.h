// SPDX-License-Identifier: Apache-2.0
// Builds the nodes of a graph that multiply by weights, with the backend that suits the number of
// rows.
//
// Owner: the model; graphs are built on its thread. Nodes of other backends than ggml's run on all
// threads of ggml's team, which take panels of outputs one by one. Results do not depend on who
// took which.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/aligned_memory.h"
#include "ggml.h"
#include "model/decoder_weights.h"
#include "model/linear_backend.h"
#include "model/linear_choice.h"
#include "model/packed_weights.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Memory of each thread, as much as the largest product so far asked for.
class LinearScratch {
 public:
  explicit LinearScratch(int threads) : buffers_(static_cast<std::size_t>(threads)) {}

  // Errors: ResourceExhausted; what there was before stays.
  Status Ensure(std::size_t bytes);
  std::byte* of(int thread) const { return buffers_[static_cast<std::size_t>(thread)].get(); }
  std::uint64_t bytes() const { return size_ * buffers_.size(); }
  std::uint64_t touched_bytes() const;  // of these, what lies in memory

 private:
  std::vector<AlignedBytes> buffers_;
  std::size_t size_ = 0;  // of each
};

// What the nodes of a graph find in their userdata; lives as long as the graph.
struct LinearNode {
  struct Part {
    std::unique_ptr<LinearProduct> product;
    const void* weights = nullptr;
    std::int64_t row_bytes = 0;  // of the weights of an output
    const std::byte* packed = nullptr;
    const float* bias = nullptr;  // [outputs], or null
    std::int64_t outputs = 0;
    std::int64_t first_output = 0;  // in a row of the result

    int panels() const {
      const std::int64_t width = product->panel_outputs();
      return static_cast<int>((outputs + width - 1) / width);
    }
  };

  const LinearBackend* backend = nullptr;
  std::vector<Part> parts;
  std::int64_t inputs = 0;
  int rows = 0;
  bool prepares = false;  // each thread prepares all rows for itself
  const LinearScratch* scratch = nullptr;
  const LinearNode* following = nullptr;  // with products, in the same graph; null: the last one
  std::atomic<int> next_panel{0};
  std::atomic<int> finished{0};
};

// All nodes of a graph, in the order of computation.
struct LinearNodes {
  std::vector<std::unique_ptr<LinearNode>> nodes;
  // The last rows that were prepared, and the tensor that holds them, so that matrices in separate
  // nodes share them.
  const ggml_tensor* prepared_of = nullptr;
  const LinearBackend* prepared_by = nullptr;
  ggml_tensor* prepared = nullptr;
};

class LinearLayers {
 public:
  // `choice` and `packed` outlive the layers.
  LinearLayers(const LinearChoice& choice, const PackedWeights& packed, int threads)
      : choice_(&choice), packed_(&packed), scratch_(threads) {}
  // Everything by one backend, which serves it; null: ggml.
  LinearLayers(const LinearBackend* backend, int threads) : backend_(backend), scratch_(threads) {}

  // Returns x [inputs, rows] times all `matrices`, results side by side: [sum of outputs, rows].
  // With several matrices only where CanJoin. Trouble is told by TakeStatus.
  ggml_tensor* Multiply(ggml_context* context, std::span<const Linear> matrices, ggml_tensor* x,
                        LinearNodes* graph);

  // Whether one node multiplies rows by all of the matrices.
  bool CanJoin(std::span<const Linear> matrices, int rows) const;

  // Tells, once, whether all graphs built since the last call may be computed. Errors:
  // ResourceExhausted where a node's scratch was not to be had.
  Status TakeStatus() { return std::exchange(status_, Status::Ok()); }
  std::uint64_t scratch_bytes() const { return scratch_.bytes(); }
  std::uint64_t touched_scratch_bytes() const { return scratch_.touched_bytes(); }

 private:
  const LinearBackend* BackendOf(const Linear& matrix, int rows) const {
    return choice_ == nullptr ? backend_ : choice_->Find(*matrix.weight, rows);
  }

  const LinearChoice* choice_ = nullptr;  // null: backend_ for all
  const PackedWeights* packed_ = nullptr;
  const LinearBackend* backend_ = nullptr;
  LinearScratch scratch_;
  Status status_;
};

}  // namespace swiftkv
