// SPDX-License-Identifier: Apache-2.0
// Implements linear layers over oneDNN's matmul primitives, made for a team of one.
#include "model/onednn_linear.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <set>
#include <tuple>
#include <vector>

#include "attention/kept_tiles.h"
#include "base/aligned_memory.h"
#include "base/check.h"
#include "formats/row_conversion.h"
#include "model/weight_panel.h"

// OpenMP's, of whichever runtime the program is linked with; not every compiler has its header.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int threads);
}

namespace swiftkv {
namespace {

using dnnl::memory;
using DataType = memory::data_type;

constexpr std::size_t kPanelBytes = 1U << 20;  // about half of a second-level cache
constexpr std::int64_t kMostPanelOutputs = 128;

// Kernels for one thread: oneDNN looks at the OpenMP team's size when it makes a primitive.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// What oneDNN may need to generate a kernel, with a wide margin: where memory ends while it does,
// it writes through a null pointer.
constexpr std::size_t kGeneratorBytes = 64U << 20;

// Throws what oneDNN throws where it does notice.
AlignedBytes AllocateOrThrow(std::size_t bytes) {
  AlignedBytes room = AllocateAligned(bytes);
  if (room == nullptr) throw dnnl::error(dnnl_out_of_memory, "no memory to generate a kernel");
  return room;
}

void ExpectMemoryToGenerate() {
  const AlignedBytes room = AllocateOrThrow(kGeneratorBytes);
  *static_cast<volatile std::byte*>(room.get()) = std::byte{0};  // or compilers leave it all out
}

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// out[rows, outputs] = in[rows, inputs] x panel[inputs, outputs], out in f32 and strided.
struct Kernel {
  Kernel(DataType type, int rows, std::int64_t inputs, std::int64_t outputs,
         std::int64_t out_stride)
      : in({rows, inputs}, type, memory::format_tag::ab),
        panel({inputs, outputs}, type, memory::format_tag::ab),
        out({rows, outputs}, DataType::f32, memory::dims{out_stride, 1}) {
    ExpectMemoryToGenerate();
    const OneThread one_thread;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::primitive_desc description({in, panel, out}, attributes, Engine());
    scratchpad = description.scratchpad_desc();
    matmul = dnnl::matmul(description);
  }

  // On a thread of ggml's team, which no exception may leave.
  void RunChecked(const void* rows, const void* weights, float* results,
                  std::byte* scratch) const noexcept {
    try {
      Run(rows, weights, results, scratch);
    } catch (const std::exception&) {
      SKV_CHECK(false, "oneDNN computes what it made a primitive for");
    }
  }

  void Run(const void* rows, const void* weights, float* results, std::byte* scratch) const {
    const auto bind = [](const memory::desc& desc, const void* data) {
      return memory(desc, Engine(), const_cast<void*>(data));
    };
    dnnl::stream stream(Engine());
    matmul.execute(stream, {{DNNL_ARG_SRC, bind(in, rows)},
                            {DNNL_ARG_WEIGHTS, bind(panel, weights)},
                            {DNNL_ARG_DST, bind(out, results)},
                            {DNNL_ARG_SCRATCHPAD, bind(scratchpad, scratch)}});
  }

  memory::desc in;
  memory::desc panel;
  memory::desc out;
  memory::desc scratchpad;
  dnnl::matmul matmul;
};

// Has oneDNN generate what it puts off until a kernel of these sizes runs for the first time, so
// that no step can find the memory gone. That does not depend on the stride of results, which here
// lie back to back: those of a whole matrix may be large.
// Once for each size: the layers of a model share theirs.
void GenerateAll(DataType type, int rows, std::int64_t inputs, std::int64_t outputs) {
  static std::mutex mutex;
  static std::set<std::tuple<DataType, int, std::int64_t, std::int64_t>> generated;
  const std::lock_guard lock(mutex);
  const std::tuple sizes(type, rows, inputs, outputs);
  if (generated.contains(sizes)) return;
  const Kernel kernel(type, rows, inputs, outputs, outputs);
  const auto zeros = [](std::size_t bytes) {
    AlignedBytes memory = AllocateOrThrow(bytes + 1);
    std::memset(memory.get(), 0, bytes);
    return memory;
  };
  const AlignedBytes in = zeros(kernel.in.get_size());
  const AlignedBytes panel = zeros(kernel.panel.get_size());
  const AlignedBytes out = zeros(kernel.out.get_size());
  const AlignedBytes scratch = zeros(kernel.scratchpad.get_size());
  const KeptTiles kept;
  kernel.Run(in.get(), panel.get(), reinterpret_cast<float*>(out.get()), scratch.get());
  generated.insert(sizes);
}

double SecondsOf(DataType type) {
  constexpr int kRows = 64;
  constexpr std::int64_t kInputs = 512;
  constexpr std::int64_t kOutputs = 64;
  const Kernel kernel(type, kRows, kInputs, kOutputs, kOutputs);
  const std::vector<float> rows(kRows * kInputs, 0.0F);  // zeros in either type
  const std::vector<float> weights(kInputs * kOutputs, 0.0F);
  std::vector<float> out(kRows * kOutputs);
  const AlignedBytes scratch = AllocateAligned(kernel.scratchpad.get_size() + 1);
  double best = 1e9;
  for (int i = 0; i < 8; ++i) {
    const auto start = std::chrono::steady_clock::now();
    kernel.Run(rows.data(), weights.data(), out.data(), scratch.get());
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    best = std::min(best, passed.count());
  }
  return best;
}

// Units for bf16 are 16 times as fast as those for f32 (AMX), twice (AVX-512 BF16) or, on some
// CPUs, half as fast, all far from the border; where they gain nothing f32 is exact.
DataType MeasureFastestType() {
  constexpr double kWorthwhile = 1.3;
  const KeptTiles kept;
  try {
    return SecondsOf(DataType::f32) > kWorthwhile * SecondsOf(DataType::bf16) ? DataType::bf16
                                                                              : DataType::f32;
  } catch (const std::exception&) {
    return DataType::f32;  // the library has no bf16 here
  }
}

// How a matrix is cut into panels.
struct Panels {
  Panels(DataType data_type, const LinearShape& matrix) : type(data_type), shape(matrix) {
    const auto column = static_cast<std::int64_t>(memory::data_type_size(type)) *
                        std::max<std::int64_t>(1, shape.inputs);
    const std::int64_t fitting = static_cast<std::int64_t>(kPanelBytes) / column;
    outputs = std::min(shape.outputs, std::clamp(fitting / kPanelLanes * kPanelLanes,
                                                 2 * kPanelLanes, kMostPanelOutputs));
  }

  std::size_t bytes() const {  // of one
    return RoundToCacheLine(static_cast<std::size_t>(outputs * shape.inputs) *
                            memory::data_type_size(type));
  }
  std::int64_t count() const { return (shape.outputs + outputs - 1) / outputs; }

  // Unpacks [first, first + num_outputs).
  void Unpack(const void* weights, std::int64_t first, std::int64_t num_outputs,
              std::byte* to) const {
    const WeightRows rows = {shape.type, weights, shape.inputs, first, num_outputs};
    if (type == DataType::f32) {
      UnpackPanel(rows, reinterpret_cast<float*>(to));
    } else {
      UnpackPanelBf16(rows, reinterpret_cast<std::uint16_t*>(to));
    }
  }

  DataType type;
  LinearShape shape;
  std::int64_t outputs = 0;  // of a panel, the last one perhaps fewer
};

// Measured when a product is first wanted, once: a program that multiplies otherwise spares it.
DataType FastestType() {
  static const DataType type = MeasureFastestType();
  return type;
}

class OnednnProduct final : public LinearProduct {
 public:
  OnednnProduct(const Panels& panels, int rows, std::int64_t out_stride) : panels_(panels) {
    const LinearShape& shape = panels.shape;
    GenerateAll(panels.type, rows, shape.inputs, panels.outputs);
    whole_ = std::make_unique<Kernel>(panels.type, rows, shape.inputs, panels.outputs, out_stride);
    const std::int64_t rest = shape.outputs % panels.outputs;
    if (rest > 0) {
      GenerateAll(panels.type, rows, shape.inputs, rest);
      rest_ = std::make_unique<Kernel>(panels.type, rows, shape.inputs, rest, out_stride);
    }
  }

  std::int64_t panel_outputs() const override { return panels_.outputs; }

  std::size_t scratch_bytes() const override {
    std::size_t scratchpad = whole_->scratchpad.get_size();
    if (rest_ != nullptr) scratchpad = std::max(scratchpad, rest_->scratchpad.get_size());
    return panels_.bytes() + RoundToCacheLine(scratchpad);
  }

  void Multiply(const LinearInputs& inputs, const LinearPanel& panel,
                std::byte* scratch) const override {
    const Kernel& kernel = panel.num_outputs == panels_.outputs ? *whole_ : *rest_;
    const std::byte* weights = scratch;
    if (panel.packed == nullptr) {
      panels_.Unpack(panel.weights, panel.first_output, panel.num_outputs, scratch);
    } else {
      weights = panel.packed +
                static_cast<std::size_t>(panel.first_output / panels_.outputs) * panels_.bytes();
    }
    const void* in = panels_.type == DataType::f32 ? static_cast<const void*>(inputs.floats)
                                                   : static_cast<const void*>(inputs.prepared);
    const KeptTiles kept;
    kernel.RunChecked(in, weights, panel.out, scratch + panels_.bytes());
  }

 private:
  Panels panels_;
  std::unique_ptr<Kernel> whole_;
  std::unique_ptr<Kernel> rest_;  // of the last panel, null where it is whole
};

class OnednnLinear final : public LinearBackend {
 public:
  explicit OnednnLinear(DataType (*type)()) : type_(type) {}

  bool Serves(const LinearShape& shape) const override {
    return shape.type == GGML_TYPE_F32 || ggml_get_type_traits(shape.type)->to_float != nullptr;
  }

  bool ServesFewRows(const LinearShape& /*shape*/) const override { return false; }

  std::size_t PreparedBytes(int rows, std::int64_t inputs) const override {
    if (type_() == DataType::f32) return 0;
    return RoundToCacheLine(static_cast<std::size_t>(rows) * static_cast<std::size_t>(inputs) *
                            sizeof(std::uint16_t));
  }

  void Prepare(const LinearInputs& inputs, std::byte* prepared, int thread,
               int num_threads) const override {
    const std::int64_t first = inputs.rows * thread / num_threads;
    const std::int64_t end = inputs.rows * (thread + 1) / num_threads;
    const auto at = static_cast<std::size_t>(first * inputs.inputs);
    HostRowConversion().float_to_bf16(inputs.floats + at,
                                      reinterpret_cast<std::uint16_t*>(prepared) + at,
                                      static_cast<std::size_t>((end - first) * inputs.inputs));
  }

  std::unique_ptr<LinearProduct> Make(const LinearShape& shape, int rows,
                                      std::int64_t out_stride) const override {
    try {
      return std::make_unique<OnednnProduct>(Panels(type_(), shape), rows, out_stride);
    } catch (const std::exception&) {  // what oneDNN refuses, and want of memory
      return nullptr;
    }
  }

  std::size_t PackedBytes(const LinearShape& shape) const override {
    const Panels panels(type_(), shape);
    return static_cast<std::size_t>(panels.count()) * panels.bytes();
  }

  void Pack(const LinearShape& shape, const void* weights, std::byte* packed) const override {
    const Panels panels(type_(), shape);
    for (std::int64_t first = 0; first < shape.outputs; first += panels.outputs) {
      panels.Unpack(weights, first, std::min(panels.outputs, shape.outputs - first), packed);
      packed += panels.bytes();
    }
  }

 private:
  DataType (*type_)();
};

}  // namespace

std::unique_ptr<LinearBackend> MakeOnednnLinear() {
  return std::make_unique<OnednnLinear>(FastestType);
}

std::unique_ptr<LinearBackend> MakeOnednnLinear(OnednnNumbers numbers) {
  if (numbers == OnednnNumbers::kBf16) {
    return std::make_unique<OnednnLinear>([] { return DataType::bf16; });
  }
  return std::make_unique<OnednnLinear>([] { return DataType::f32; });
}

void FreeUnusedOnednnKernels() {
  try {
    const int capacity = dnnl::get_primitive_cache_capacity();
    dnnl::set_primitive_cache_capacity(0);
    dnnl::set_primitive_cache_capacity(capacity);
  } catch (const dnnl::error&) {
    return;  // they stay
  }
}

}  // namespace swiftkv
