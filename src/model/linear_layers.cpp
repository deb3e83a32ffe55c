// SPDX-License-Identifier: Apache-2.0
// Implements the nodes of linear layers.
#include "model/linear_layers.h"

#include <algorithm>

#include "base/check.h"
#include "base/process_memory.h"

namespace swiftkv {
namespace {

// Up to as many rows each thread prepares all of them for itself, which takes less time than
// waiting for the others.
constexpr int kRowsPreparedByEach = 4;

std::byte* Aligned(void* data) {
  return reinterpret_cast<std::byte*>(RoundToCacheLine(reinterpret_cast<std::size_t>(data)));
}

LinearInputs InputsOf(const LinearNode& node) {
  LinearInputs inputs;
  inputs.rows = node.rows;
  inputs.inputs = node.inputs;
  return inputs;
}

void ComputePrepare(ggml_tensor* result, int thread, int num_threads, void* userdata) {
  const LinearNode& node = *static_cast<LinearNode*>(userdata);
  LinearInputs inputs = InputsOf(node);
  inputs.floats = static_cast<const float*>(result->src[0]->data);
  node.backend->Prepare(inputs, Aligned(result->data), thread, num_threads);
}

void AddBias(const float* bias, const LinearPanel& panel, int rows) {
  float* out = panel.out;
  for (int row = 0; row < rows; ++row, out += panel.out_stride) {
    for (std::int64_t o = 0; o < panel.num_outputs; ++o) out[o] += bias[panel.first_output + o];
  }
}

// Some outputs of a part of a node.
struct PanelPlace {
  const LinearNode::Part* part = nullptr;  // null: none
  std::int64_t first_output = 0;
  std::int64_t num_outputs = 0;

  const std::byte* weights() const {
    return static_cast<const std::byte*>(part->weights) + first_output * part->row_bytes;
  }
};

// Returns panel `index` of the node's; where it has fewer, of the node that follows, if any.
PanelPlace PlaceOf(const LinearNode& node, int index) {
  for (const LinearNode* at = &node; at != nullptr; at = at == &node ? node.following : nullptr) {
    for (const LinearNode::Part& part : at->parts) {
      const int panels = part.panels();
      if (index < panels) {
        const std::int64_t width = part.product->panel_outputs();
        const std::int64_t first = index * width;
        return {&part, first, std::min(width, part.outputs - first)};
      }
      index -= panels;
    }
  }
  return {};
}

int PanelsOf(const LinearNode& node) {
  int panels = 0;
  for (const LinearNode::Part& part : node.parts) panels += part.panels();
  return panels;
}

// Computes a panel of a node. `next` is what the thread takes after it if all threads
// take turns.
void ComputePanel(const LinearInputs& inputs, const PanelPlace& place, const PanelPlace& next,
                  ggml_tensor* result, std::byte* scratch) {
  const LinearNode::Part& part = *place.part;
  LinearPanel panel;
  panel.weights = part.weights;
  panel.packed = part.packed;
  panel.first_output = place.first_output;
  panel.num_outputs = place.num_outputs;
  panel.out = static_cast<float*>(result->data) + part.first_output + panel.first_output;
  panel.out_stride = result->ne[0];
  if (next.part != nullptr) {
    panel.next_weights = next.weights();
    panel.next_bytes = next.num_outputs * next.part->row_bytes;
  }
  part.product->Multiply(inputs, panel, scratch);
  if (part.bias != nullptr) AddBias(part.bias, panel, inputs.rows);
}

void ComputeProducts(ggml_tensor* result, int thread, int num_threads, void* userdata) {
  LinearNode& node = *static_cast<LinearNode*>(userdata);
  LinearInputs inputs = InputsOf(node);
  std::byte* scratch = node.scratch->of(thread);
  if (result->src[0]->type == GGML_TYPE_F32) {
    inputs.floats = static_cast<const float*>(result->src[0]->data);
  } else {
    inputs.prepared = Aligned(result->src[0]->data);
  }
  if (node.prepares) {
    node.backend->Prepare(inputs, scratch, 0, 1);
    inputs.prepared = scratch;
    scratch += RoundToCacheLine(node.backend->PreparedBytes(node.rows, node.inputs));
  }
  const int panels = PanelsOf(node);
  for (;;) {
    const int index = node.next_panel.fetch_add(1, std::memory_order_relaxed);
    if (index >= panels) break;
    ComputePanel(inputs, PlaceOf(node, index), PlaceOf(node, index + num_threads), result, scratch);
  }
  // The last to finish leaves the node as it was; ggml's barrier comes before its next use.
  if (node.finished.fetch_add(1, std::memory_order_acq_rel) + 1 == num_threads) {
    node.next_panel.store(0, std::memory_order_relaxed);
    node.finished.store(0, std::memory_order_relaxed);
  }
}

// Returns the node that prepares x for `backend`.
ggml_tensor* Prepared(ggml_context* context, const LinearBackend& backend, ggml_tensor* x,
                      LinearNodes* graph) {
  if (graph->prepared_of == x && graph->prepared_by == &backend) return graph->prepared;
  auto node = std::make_unique<LinearNode>();
  node->backend = &backend;
  node->inputs = x->ne[0];
  node->rows = static_cast<int>(x->ne[1]);
  const std::size_t bytes = backend.PreparedBytes(node->rows, node->inputs) + kCacheLine;
  ggml_tensor* sources[] = {x};
  graph->prepared = ggml_custom_4d(context, GGML_TYPE_I8, static_cast<std::int64_t>(bytes), 1, 1, 1,
                                   sources, 1, ComputePrepare, GGML_N_TASKS_MAX, node.get());
  graph->prepared_of = x;
  graph->prepared_by = &backend;
  graph->nodes.push_back(std::move(node));
  return graph->prepared;
}

// Adds a node of products, and tells the one before what it reads next.
void Append(std::unique_ptr<LinearNode> node, LinearNodes* graph) {
  const auto before = std::find_if(graph->nodes.rbegin(), graph->nodes.rend(),
                                   [](const auto& other) { return !other->parts.empty(); });
  if (before != graph->nodes.rend()) (*before)->following = node.get();
  graph->nodes.push_back(std::move(node));
}

// Several matrices come here only where a backend refused one that it serves.
ggml_tensor* GgmlProducts(ggml_context* context, std::span<const Linear> matrices, ggml_tensor* x) {
  ggml_tensor* all = nullptr;
  for (const Linear& matrix : matrices) {
    ggml_tensor* product = ggml_mul_mat(context, matrix.weight, x);
    if (matrix.bias != nullptr) product = ggml_add(context, product, matrix.bias);
    all = all == nullptr ? product : ggml_concat(context, all, product, /*dim=*/0);
  }
  return all;
}

std::int64_t OutputsOf(std::span<const Linear> matrices) {
  std::int64_t outputs = 0;
  for (const Linear& matrix : matrices) outputs += matrix.weight->ne[1];
  return outputs;
}

}  // namespace

Status LinearScratch::Ensure(std::size_t bytes) {
  if (bytes <= size_) return Status::Ok();
  std::vector<AlignedBytes> larger;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    larger.push_back(AllocateAligned(bytes));
    if (larger.back() != nullptr) continue;
    return Status::ResourceExhausted(
        "not enough memory for the scratch of linear layers, in bytes a thread: " +
        std::to_string(bytes));
  }
  buffers_ = std::move(larger);
  size_ = RoundToCacheLine(bytes);
  return Status::Ok();
}

std::uint64_t LinearScratch::touched_bytes() const {
  std::uint64_t bytes = 0;
  for (const AlignedBytes& buffer : buffers_) bytes += TouchedBytes(buffer.get(), size_);
  return bytes;
}

bool LinearLayers::CanJoin(std::span<const Linear> matrices, int rows) const {
  const LinearBackend* backend = BackendOf(matrices.front(), rows);
  return backend != nullptr && std::all_of(matrices.begin(), matrices.end(), [&](const Linear& m) {
           return BackendOf(m, rows) == backend;
         });
}

ggml_tensor* LinearLayers::Multiply(ggml_context* context, std::span<const Linear> matrices,
                                    ggml_tensor* x, LinearNodes* graph) {
  const auto rows = static_cast<int>(x->ne[1]);
  const LinearBackend* backend = BackendOf(matrices.front(), rows);
  auto node = std::make_unique<LinearNode>();
  std::size_t scratch = 0;
  const std::int64_t outputs = OutputsOf(matrices);
  for (std::int64_t first = 0; const Linear& matrix : matrices) {
    if (backend == nullptr) break;
    const LinearShape shape = {matrix.weight->type, matrix.weight->ne[0], matrix.weight->ne[1]};
    LinearNode::Part part;
    part.product = backend->Make(shape, rows, outputs);
    if (part.product == nullptr) {
      backend = nullptr;
      break;
    }
    part.weights = matrix.weight->data;
    part.row_bytes = static_cast<std::int64_t>(matrix.weight->nb[1]);
    if (packed_ != nullptr) part.packed = packed_->Find(matrix.weight, backend);
    if (matrix.bias != nullptr) part.bias = static_cast<const float*>(matrix.bias->data);
    part.outputs = shape.outputs;
    part.first_output = first;
    first += shape.outputs;
    scratch = std::max(scratch, part.product->scratch_bytes());
    node->parts.push_back(std::move(part));
  }
  if (backend == nullptr) return GgmlProducts(context, matrices, x);
  node->backend = backend;
  node->inputs = x->ne[0];
  node->rows = rows;
  node->scratch = &scratch_;
  const std::size_t prepared = RoundToCacheLine(backend->PreparedBytes(rows, node->inputs));
  node->prepares = prepared > 0 && rows <= kRowsPreparedByEach;
  if (node->prepares) scratch += prepared;
  if (status_.ok()) status_ = scratch_.Ensure(scratch);
  ggml_tensor* source = x;
  if (prepared > 0 && !node->prepares) source = Prepared(context, *backend, x, graph);
  ggml_tensor* sources[] = {source};
  ggml_tensor* product = ggml_custom_4d(context, GGML_TYPE_F32, outputs, rows, 1, 1, sources, 1,
                                        ComputeProducts, GGML_N_TASKS_MAX, node.get());
  Append(std::move(node), graph);
  return product;
}

}  // namespace swiftkv
