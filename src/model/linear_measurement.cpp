// SPDX-License-Identifier: Apache-2.0
// Implements timing of products as nodes of small graphs.
#include "model/linear_measurement.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "model/linear_layers.h"

namespace swiftkv {
namespace {

constexpr int kRounds = 4;                 // the first one warms up
constexpr std::size_t kMostMatrices = 16;  // of one graph
constexpr double kWorkOfRound = 3e8;       // multiplications; bounds many rows of large weights
constexpr double kBoundSeconds = 0.5;      // no further round after as much

// A graph that multiplies the same rows by some matrices.
class Products {
 public:
  Products(std::span<const ggml_tensor* const> matrices, const LinearBackend* backend, int rows,
           int threads)
      : layers_(backend, threads) {
    const std::size_t nodes = 4 * matrices.size() + 4;
    context_.reset(ggml_init(
        {2 * nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(nodes, /*grads=*/false),
         nullptr, /*no_alloc=*/true}));
    graph_ = ggml_new_graph_custom(context_.get(), nodes, /*grads=*/false);
    rows_ = ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, matrices.front()->ne[0], rows);
    ggml_set_input(rows_);
    for (const ggml_tensor* matrix : matrices) {
      Linear linear;
      linear.weight = const_cast<ggml_tensor*>(matrix);  // ggml's graphs are typed writable
      ggml_build_forward_expand(
          graph_, layers_.Multiply(context_.get(), std::span(&linear, 1), rows_, &nodes_));
    }
    ready_ = layers_.TakeStatus().ok();
    if (!ready_) return;
    plan_ = ggml_graph_plan(graph_, threads, nullptr);
    work_.resize(plan_.work_size);
    plan_.work_data = work_.data();
  }

  // Makes the allocator's buffer large enough. Only when every rival has done so, Allocate: a
  // buffer that grows takes the place of the one before.
  void Reserve(ggml_gallocr_t allocator) {
    ready_ = ready_ && ggml_gallocr_reserve(allocator, graph_);
  }
  void Allocate(ggml_gallocr_t allocator) {
    ready_ = ready_ && ggml_gallocr_alloc_graph(allocator, graph_);
  }

  double Seconds() {
    if (!ready_) return std::numeric_limits<double>::infinity();
    auto* values = static_cast<float*>(rows_->data);
    for (std::int64_t i = 0; i < ggml_nelements(rows_); ++i) {
      values[i] = static_cast<float>(i * 37 % 101 - 50) * 0.02F;
    }
    const auto start = std::chrono::steady_clock::now();
    ggml_graph_compute(graph_, &plan_);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    return passed.count();
  }

 private:
  LinearLayers layers_;
  LinearNodes nodes_;
  ggml_context_ptr context_;
  ggml_cgraph* graph_ = nullptr;
  ggml_tensor* rows_ = nullptr;
  ggml_cplan plan_ = {};
  std::vector<std::uint8_t> work_;
  bool ready_ = false;
};

}  // namespace

std::vector<double> MeasureProducts(std::span<const ggml_tensor* const> matrices,
                                    std::span<const LinearBackend* const> backends, int rows,
                                    int threads) {
  const double work =
      static_cast<double>(rows) * static_cast<double>(ggml_nelements(matrices.front()));
  const auto affordable = static_cast<std::size_t>(kWorkOfRound / work);
  const std::size_t count =
      std::clamp<std::size_t>(affordable, 1, std::min(kMostMatrices, matrices.size()));
  matrices = matrices.first(count);
  std::vector<std::unique_ptr<Products>> rivals;
  for (const LinearBackend* backend : backends) {
    rivals.push_back(std::make_unique<Products>(matrices, backend, rows, threads));
  }
  // Rivals run one at a time, and write their rows anew: results of a large vocabulary, which take
  // most, are in memory once.
  const ggml_gallocr_ptr allocator(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
  for (const auto& rival : rivals) rival->Reserve(allocator.get());
  for (const auto& rival : rivals) rival->Allocate(allocator.get());
  std::vector<double> best(backends.size(), std::numeric_limits<double>::infinity());
  double spent = 0;
  for (int round = 0; round < kRounds && spent < kBoundSeconds; ++round) {
    for (std::size_t i = 0; i < rivals.size(); ++i) {
      const double seconds = rivals[i]->Seconds();
      spent += seconds;
      best[i] = std::min(best[i], seconds / static_cast<double>(count));
    }
  }
  return best;
}

}  // namespace swiftkv
