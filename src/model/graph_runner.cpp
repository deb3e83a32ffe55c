// SPDX-License-Identifier: Apache-2.0
// Implements reuse and computation of graphs on ggml's CPU code.
#include "model/graph_runner.h"

#include <algorithm>
#include <new>

#include "base/process_memory.h"
#include "base/status_macros.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

namespace swiftkv {
namespace {

// Prefill chunks, the last chunk of a prompt, and decodes of some batch sizes.
constexpr std::size_t kMaxGraphs = 16;

bool IsCancelled(void* flag) {
  return static_cast<const std::atomic<bool>*>(flag)->load(std::memory_order_relaxed);
}

}  // namespace

Result<std::unique_ptr<GraphRunner>> GraphRunner::Create(const GraphParts& parts, int threads,
                                                         int max_rows) {
  ggml_cpu_init();
  std::unique_ptr<GraphRunner> runner(new GraphRunner(parts, threads));
  runner->allocator_.reset(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
  SKV_ASSIGN_OR_RETURN(DecoderGraph * largest,
                       runner->Prepare({max_rows, std::min(1, max_rows), /*merge=*/true}));
  (void)largest;
  return runner;
}

Result<DecoderGraph*> GraphRunner::Prepare(const GraphShape& shape) {
  const auto found = std::find_if(graphs_.begin(), graphs_.end(),
                                  [&](const auto& graph) { return graph->shape == shape; });
  if (found != graphs_.end()) {
    std::rotate(found, found + 1, graphs_.end());
    return graphs_.back().get();
  }
  auto graph = BuildDecoderGraph(parts_, shape);
  SKV_RETURN_IF_ERROR(parts_.linear.TakeStatus());
  SKV_RETURN_IF_ERROR(Allocate(graph.get()));
  if (graphs_.size() == kMaxGraphs) graphs_.erase(graphs_.begin());
  graphs_.push_back(std::move(graph));
  return graphs_.back().get();
}

Status GraphRunner::Allocate(DecoderGraph* graph) {
  const std::size_t before = ggml_gallocr_get_buffer_size(allocator_.get(), 0);
  const bool allocated = ggml_gallocr_alloc_graph(allocator_.get(), graph->graph);
  // A larger buffer replaces the one that the tensors of older graphs point into.
  if (!allocated || ggml_gallocr_get_buffer_size(allocator_.get(), 0) != before) graphs_.clear();
  graph->plan = ggml_graph_plan(graph->graph, threads_, nullptr);
  if (allocated && work_size_ < graph->plan.work_size) {
    work_.reset(new (std::nothrow) std::uint8_t[graph->plan.work_size]);
    work_size_ = work_ == nullptr ? 0 : graph->plan.work_size;
  }
  if (!allocated || work_size_ < graph->plan.work_size) {
    return Status::ResourceExhausted("not enough memory for the activations of a step of " +
                                     std::to_string(graph->shape.rows) + " rows and " +
                                     std::to_string(graph->shape.outputs) + " outputs");
  }
  return Status::Ok();
}

Status GraphRunner::Compute(DecoderGraph* graph, const std::atomic<bool>* cancel) {
  graph->plan.work_data = work_.get();
  graph->plan.abort_callback = cancel == nullptr ? nullptr : IsCancelled;
  graph->plan.abort_callback_data = const_cast<std::atomic<bool>*>(cancel);
  switch (ggml_graph_compute(graph->graph, &graph->plan)) {
    case GGML_STATUS_SUCCESS:
      return Status::Ok();
    case GGML_STATUS_ABORTED:
      return Status::Cancelled("the step was cancelled");
    default:
      return Status::Internal("ggml failed to compute a step of " +
                              std::to_string(graph->shape.rows) + " rows");
  }
}

std::uint64_t GraphRunner::memory_bytes() const {
  return ggml_gallocr_get_buffer_size(allocator_.get(), 0) + work_size_;
}

std::uint64_t GraphRunner::touched_bytes() const {
  const std::uint64_t work = TouchedBytes(work_.get(), work_size_);
  if (graphs_.empty()) return work;
  ggml_backend_buffer_t buffer = graphs_.back()->tokens->buffer;  // all tensors of all graphs
  return work +
         TouchedBytes(ggml_backend_buffer_get_base(buffer), ggml_backend_buffer_get_size(buffer));
}

}  // namespace swiftkv
