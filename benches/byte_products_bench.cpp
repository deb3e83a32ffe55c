// SPDX-License-Identifier: Apache-2.0
// Measures byte products against ggml's on the same weights: GB/s of weights and GFLOP/s on two
// threads.
//
// Matrices are repeated until few rows must read them from memory. Ours and ggml's passes alternate
// within a case, so that a slow moment of the machine hits both; ggml's figures are counters of our
// case. `fraction` is over a plain read of the same weights, in turn with them. Packing of the rows
// is measured by itself and not in our products; ggml's hold it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/thread_team.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "model/byte_products.h"
#include "tools/bench_probes.h"

namespace swiftkv {
namespace {

constexpr int kThreads = 2;
constexpr std::size_t kLine = 64;  // bytes
constexpr std::size_t kWeightBytes = 200'000'000;
constexpr double kPassFlops = 2e10;
constexpr std::int64_t kSampleOutputs = 16;  // made at random and repeated

struct Case {
  ggml_type type;
  std::int64_t inputs;
  std::int64_t outputs;
  std::int64_t rows;

  std::int64_t matrix_bytes() const {
    return static_cast<std::int64_t>(ggml_row_size(type, inputs)) * outputs;
  }
  double flops() const { return 2.0 * static_cast<double>(inputs * outputs * rows); }
  std::int64_t copies() const {
    const auto by_bytes = static_cast<std::int64_t>(kWeightBytes) / matrix_bytes();
    return std::clamp<std::int64_t>(by_bytes, 1,
                                    1 + static_cast<std::int64_t>(kPassFlops / flops()));
  }
};

std::vector<float> RandomValues(std::int64_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// A ggml graph of independent products; our products read its weights.
class Products {
 public:
  explicit Products(const Case& what) : what_(what) {
    const std::int64_t copies = what.copies();
    const auto bytes = static_cast<std::size_t>(
        copies * (what.matrix_bytes() + what.outputs * what.rows * 4 + 4096) +
        what.rows * what.inputs * 8 + (64 << 20));
    context_ = ggml_init({bytes, nullptr, false});
    graph_ = ggml_new_graph_custom(context_, static_cast<std::size_t>(3 * copies + 16), false);
    rows_ = ggml_new_tensor_2d(context_, GGML_TYPE_F32, what.inputs, what.rows);
    const auto values = RandomValues(what.rows * what.inputs);
    std::memcpy(rows_->data, values.data(), values.size() * sizeof(float));
    const auto sample = RandomValues(kSampleOutputs * what.inputs);
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      ggml_tensor* const weights =
          ggml_new_tensor_2d(context_, what.type, what.inputs, what.outputs);
      FillWeights(sample, weights);
      weights_.push_back(weights->data);
      ggml_build_forward_expand(graph_, ggml_mul_mat(context_, weights, rows_));
    }
    packed_.resize(ByteRowsBytes(what.rows, what.inputs) / sizeof(ByteBlock));
    out_.resize(static_cast<std::size_t>(what.rows * what.outputs));
  }
  ~Products() { ggml_free(context_); }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  void RunGgml() { ggml_graph_compute_with_ctx(context_, graph_, kThreads); }

  void Pack(const ByteKernels& kernels, ThreadTeam* team) {
    const FloatRows rows = {static_cast<const float*>(rows_->data), what_.inputs, what_.rows,
                            what_.inputs};
    team->Run([&](int thread, int num_threads) {
      PackByteRows(kernels, rows, packed_.data(), thread, num_threads);
    });
  }

  // Reads all weights.
  void Read(const MachineProbes& probes, ThreadTeam* team) {
    std::array<std::uint64_t, kThreads> sums = {};
    team->Run([&](int thread, int num_threads) {
      const std::size_t lines = static_cast<std::size_t>(what_.matrix_bytes()) / kLine;
      const auto at = static_cast<std::size_t>(thread);
      const std::size_t first = lines * at / static_cast<std::size_t>(num_threads) * kLine;
      const std::size_t last = lines * (at + 1) / static_cast<std::size_t>(num_threads) * kLine;
      for (const void* weights : weights_) {
        // Tensors of ggml are aligned to less than a line, and what is left out does not count.
        auto address = reinterpret_cast<std::uintptr_t>(weights) + first;
        address = (address + kLine - 1) / kLine * kLine;
        sums[at] += probes.read(reinterpret_cast<const std::byte*>(address), last - first - kLine);
      }
    });
    benchmark::DoNotOptimize(sums);
  }

  void RunOurs(const ByteKernels& kernels, ThreadTeam* team) {
    const ByteRows rows = ViewByteRows(packed_.data(), what_.rows, what_.inputs);
    const auto row_bytes = static_cast<std::int64_t>(ggml_row_size(what_.type, what_.inputs));
    team->Run([&](int thread, int num_threads) {
      alignas(64) static thread_local std::byte scratch[kByteScratchBytes];
      const ByteRange share = ShareOfOutputs(what_.outputs, what_.rows, thread, num_threads);
      for (std::size_t i = 0; i < weights_.size(); ++i) {
        ByteRange range = share;
        if (i + 1 < weights_.size()) {
          range.next =
              static_cast<const std::byte*>(weights_[i + 1]) + share.first_output * row_bytes;
          range.next_bytes = (share.last_output - share.first_output) * row_bytes;
        }
        MultiplyBytes(kernels, {what_.type, weights_[i], row_bytes, what_.inputs, what_.outputs},
                      rows, range, scratch, {out_.data(), what_.outputs});
      }
    });
  }

 private:
  void FillWeights(const std::vector<float>& sample, ggml_tensor* weights) const {
    auto* const bytes = static_cast<std::byte*>(weights->data);
    const std::size_t row_bytes = ggml_row_size(what_.type, what_.inputs);
    if (weights_.empty()) {
      ggml_quantize_chunk(what_.type, sample.data(), bytes, 0, kSampleOutputs, what_.inputs,
                          nullptr);
      for (std::int64_t row = kSampleOutputs; row < what_.outputs; ++row) {
        std::memcpy(bytes + static_cast<std::size_t>(row) * row_bytes,
                    bytes + static_cast<std::size_t>(row % kSampleOutputs) * row_bytes, row_bytes);
      }
    } else {
      std::memcpy(bytes, weights_[0], static_cast<std::size_t>(what_.matrix_bytes()));
    }
  }

  Case what_;
  ggml_context* context_;
  ggml_cgraph* graph_;
  ggml_tensor* rows_;
  std::vector<void*> weights_;
  std::vector<ByteBlock> packed_;
  std::vector<float> out_;
};

// What all cases share.
struct Session {
  ThreadTeam team{kThreads};
  const ByteKernels* kernels = FindByteKernels(BestIsa(HostCpu()));
  MachineProbes probes = BestProbes(HostCpu());
};

template <typename Run>
double Seconds(const Run& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Measure(benchmark::State& state, const Case& what, Session* session) {
  Products products(what);
  products.Pack(*session->kernels, &session->team);
  std::vector<double> ours;
  std::vector<double> ggml;
  std::vector<double> packing;
  std::vector<double> reading;
  for (auto iteration : state) {
    (void)iteration;
    // ggml's workers spin on for a while after a graph, on our cores.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    packing.push_back(Seconds([&] { products.Pack(*session->kernels, &session->team); }));
    reading.push_back(Seconds([&] { products.Read(session->probes, &session->team); }));
    ours.push_back(Seconds([&] { products.RunOurs(*session->kernels, &session->team); }));
    ggml.push_back(Seconds([&] { products.RunGgml(); }));
    state.SetIterationTime(ours.back());
  }
  const auto copies = static_cast<double>(what.copies());
  const double gigabytes = copies * static_cast<double>(what.matrix_bytes()) * 1e-9;
  const double gigaflops = copies * what.flops() * 1e-9;
  state.counters["GB/s"] = gigabytes / Median(ours);
  state.counters["fraction"] = Median(reading) / Median(ours);
  state.counters["GFLOP/s"] = gigaflops / Median(ours);
  state.counters["ggml_GFLOP/s"] = gigaflops / Median(ggml);
  state.counters["times_ggml"] = Median(ggml) / Median(ours);
  state.counters["pack_us"] = Median(packing) * 1e6;
}

void RegisterAll(Session* session) {
  struct Shape {
    ggml_type type;
    std::int64_t inputs;
    std::int64_t outputs;
  };
  const Shape shapes[] = {
      {GGML_TYPE_Q4_1, 576, 576},    {GGML_TYPE_Q4_1, 576, 192},    {GGML_TYPE_Q4_1, 576, 1536},
      {GGML_TYPE_Q4_1, 1536, 576},   {GGML_TYPE_Q8_0, 576, 49152},  {GGML_TYPE_Q4_K, 4096, 4096},
      {GGML_TYPE_Q4_K, 4096, 14336}, {GGML_TYPE_Q4_K, 14336, 4096}, {GGML_TYPE_Q6_K, 4096, 4096},
      {GGML_TYPE_Q5_K, 4096, 4096},  {GGML_TYPE_Q4_0, 4096, 4096}};
  for (const Shape& shape : shapes) {
    for (const std::int64_t rows : {1, 2, 4, 8, 16, 64, 512}) {
      const Case what = {shape.type, shape.inputs, shape.outputs, rows};
      const std::string name = std::string(ggml_type_name(what.type)) + "/" +
                               std::to_string(what.inputs) + "x" + std::to_string(what.outputs) +
                               "/rows" + std::to_string(rows);
      benchmark::RegisterBenchmark(name.c_str(), Measure, what, session)
          ->Unit(benchmark::kMillisecond)
          ->UseManualTime();
    }
  }
}

}  // namespace
}  // namespace swiftkv

int main(int argc, char** argv) {
  swiftkv::Session session;
  benchmark::Initialize(&argc, argv);
  if (session.kernels == nullptr) {
    std::fprintf(stderr, "byte_products_bench: this machine's products are left to ggml\n");
    return 0;
  }
  swiftkv::RegisterAll(&session);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
