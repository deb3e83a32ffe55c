// SPDX-License-Identifier: Apache-2.0
// Implements the linear backend over the byte kernels of this machine.
#include "model/byte_linear.h"

#include <algorithm>

#include "base/cpu_features.h"
#include "model/byte_kernels.h"
#include "model/byte_products.h"
#include "model/byte_rows.h"

namespace swiftkv {
namespace {

// Enough panels that the threads of small matrices end together.
constexpr std::int64_t kPanelOutputs = kMostStrips * kStripOutputs;

class ByteLinearProduct final : public LinearProduct {
 public:
  ByteLinearProduct(const ByteKernels& kernels, const LinearShape& shape)
      : kernels_(kernels), shape_(shape) {}

  std::int64_t panel_outputs() const override { return std::min(kPanelOutputs, shape_.outputs); }
  std::size_t scratch_bytes() const override { return kByteScratchBytes; }

  void Multiply(const LinearInputs& inputs, const LinearPanel& panel,
                std::byte* scratch) const override {
    ByteProduct product;
    product.type = shape_.type;
    product.weights = panel.weights;
    product.row_bytes = static_cast<std::int64_t>(ggml_row_size(shape_.type, shape_.inputs));
    product.inputs = shape_.inputs;
    product.outputs = shape_.outputs;
    const ByteRange range = {.first_output = panel.first_output,
                             .last_output = panel.first_output + panel.num_outputs,
                             .first_row = 0,
                             .last_row = inputs.rows,
                             .next = panel.next_weights,
                             .next_bytes = panel.next_bytes};
    // Outputs are counted from the matrix's first.
    const ByteOutput out = {panel.out - panel.first_output, panel.out_stride};
    MultiplyBytes(kernels_, product, ViewByteRows(inputs.prepared, inputs.rows, inputs.inputs),
                  range, scratch, out);
  }

 private:
  const ByteKernels& kernels_;
  LinearShape shape_;
};

class ByteLinear final : public LinearBackend {
 public:
  ByteLinear() : kernels_(FindByteKernels(BestIsa(HostCpu()))) {}

  bool Serves(const LinearShape& shape) const override {
    return kernels_ != nullptr && ServesByteProduct(shape.type, shape.inputs, shape.outputs);
  }
  bool ServesFewRows(const LinearShape& shape) const override { return Serves(shape); }

  std::size_t PreparedBytes(int rows, std::int64_t inputs) const override {
    return ByteRowsBytes(rows, inputs);
  }

  void Prepare(const LinearInputs& inputs, std::byte* prepared, int thread,
               int num_threads) const override {
    PackByteRows(*kernels_, {inputs.floats, inputs.inputs, inputs.rows, inputs.inputs}, prepared,
                 thread, num_threads);
  }

  std::unique_ptr<LinearProduct> Make(const LinearShape& shape, int /*rows*/,
                                      std::int64_t /*out_stride*/) const override {
    return std::make_unique<ByteLinearProduct>(*kernels_, shape);
  }

  // Unpacked weights take twice the memory of 4-bit ones: reading them costs few rows more than
  // unpacking, and of many rows unpacking is a few percent.
  std::size_t PackedBytes(const LinearShape& /*shape*/) const override { return 0; }
  void Pack(const LinearShape& /*shape*/, const void* /*weights*/,
            std::byte* /*packed*/) const override {}

 private:
  const ByteKernels* kernels_;  // null where none would gain
};

}  // namespace

std::unique_ptr<LinearBackend> MakeByteLinear() { return std::make_unique<ByteLinear>(); }

}  // namespace swiftkv
