// SPDX-License-Identifier: Apache-2.0
// Compares oneDNN's products, in both kinds of numbers, with plain sums over the weights' floats.
#include "model/onednn_linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "base/aligned_memory.h"
#include "base/cpu_features.h"

namespace swiftkv {
namespace {

// Type, inputs, outputs, rows.
using Case = std::tuple<ggml_type, int, int, int>;

class OnednnLinearTest : public testing::TestWithParam<Case> {
 protected:
  OnednnLinearTest() {
    const auto [type, inputs, outputs, rows] = GetParam();
    shape_ = {type, inputs, outputs};
    rows_ = rows;
    const auto count = static_cast<std::size_t>(inputs) * static_cast<std::size_t>(outputs);
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = Wave(i, 0.37);
    packed_.resize(ggml_row_size(type, inputs) * static_cast<std::size_t>(outputs));
    ggml_quantize_chunk(type, values.data(), packed_.data(), 0, outputs, inputs, nullptr);
    weights_ = values;
    if (type != GGML_TYPE_F32) {
      ggml_get_type_traits(type)->to_float(packed_.data(), weights_.data(),
                                           static_cast<std::int64_t>(count));
    }
    floats_.resize(static_cast<std::size_t>(rows * inputs));
    for (std::size_t i = 0; i < floats_.size(); ++i) floats_[i] = Wave(i, 1.13);
  }

  static float Wave(std::size_t i, double step) {
    return static_cast<float>(std::sin(static_cast<double>(i) * step) +
                              0.3 * std::cos(static_cast<double>(i * i % 977)));
  }

  // All panels one after the other; results of all rows, [rows, outputs + 3].
  std::vector<float> Multiply(const LinearBackend& backend, bool packed) const {
    const std::int64_t stride = shape_.outputs + 3;
    const auto product = backend.Make(shape_, rows_, stride);
    if (product == nullptr) return {};
    LinearInputs inputs;
    inputs.rows = rows_;
    inputs.inputs = shape_.inputs;
    inputs.floats = floats_.data();
    const AlignedBytes prepared = AllocateAligned(backend.PreparedBytes(rows_, shape_.inputs) + 1);
    if (backend.PreparedBytes(rows_, shape_.inputs) > 0) {
      for (int thread = 0; thread < 3; ++thread) backend.Prepare(inputs, prepared.get(), thread, 3);
      inputs.prepared = prepared.get();
    }
    const AlignedBytes kept = AllocateAligned(backend.PackedBytes(shape_));
    if (packed) backend.Pack(shape_, packed_.data(), kept.get());
    const AlignedBytes scratch = AllocateAligned(product->scratch_bytes());
    std::vector<float> out(static_cast<std::size_t>(rows_ * stride), -7.0F);
    for (std::int64_t first = 0; first < shape_.outputs; first += product->panel_outputs()) {
      LinearPanel panel;
      panel.weights = packed_.data();
      panel.first_output = first;
      panel.num_outputs = std::min(product->panel_outputs(), shape_.outputs - first);
      panel.out = out.data() + first;
      panel.out_stride = stride;
      panel.packed = packed ? kept.get() : nullptr;
      product->Multiply(inputs, panel, scratch.get());
    }
    return out;
  }

  // `error`: of a product's factors together, relative.
  void ExpectNear(const std::vector<float>& out, double error) const {
    const auto inputs = static_cast<std::size_t>(shape_.inputs);
    const auto outputs = static_cast<std::size_t>(shape_.outputs);
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows_); ++row) {
      for (std::size_t o = 0; o < outputs; ++o) {
        double sum = 0;
        double size = 0;
        for (std::size_t i = 0; i < inputs; ++i) {
          const double term = static_cast<double>(floats_[row * inputs + i]) *
                              static_cast<double>(weights_[o * inputs + i]);
          sum += term;
          size += std::fabs(term);
        }
        ASSERT_NEAR(out[row * (outputs + 3) + o], sum, error * size) << row << ", " << o;
      }
      for (std::size_t o = outputs; o < outputs + 3; ++o) {
        ASSERT_EQ(out[row * (outputs + 3) + o], -7.0F) << "written past the outputs";
      }
    }
  }

  LinearShape shape_;
  int rows_ = 0;
  std::vector<std::byte> packed_;
  std::vector<float> weights_;  // as floats, [outputs, inputs]
  std::vector<float> floats_;
};

TEST_P(OnednnLinearTest, ProductsInF32AreExactButForTheOrderOfSums) {
  const auto backend = MakeOnednnLinear(OnednnNumbers::kF32);
  ASSERT_TRUE(backend->Serves(shape_));
  const std::vector<float> out = Multiply(*backend, false);
  ASSERT_FALSE(out.empty());
  ExpectNear(out, 2e-6);
  EXPECT_EQ(Multiply(*backend, true), out);
}

TEST_P(OnednnLinearTest, ProductsInBf16LoseTheRoundingOfBothFactors) {
  if (!HostCpu().avx512) GTEST_SKIP() << "the library multiplies bf16 with AVX-512 only";
  const auto backend = MakeOnednnLinear(OnednnNumbers::kBf16);
  const std::vector<float> out = Multiply(*backend, false);
  ASSERT_FALSE(out.empty());
  ExpectNear(out, 2 * 0x1p-8);
  EXPECT_EQ(Multiply(*backend, true), out);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, OnednnLinearTest,
    testing::Values(Case{GGML_TYPE_F32, 64, 32, 1}, Case{GGML_TYPE_F32, 523, 39, 5},
                    Case{GGML_TYPE_F16, 576, 192, 16}, Case{GGML_TYPE_Q4_1, 576, 200, 7},
                    Case{GGML_TYPE_Q8_0, 1536, 131, 33}, Case{GGML_TYPE_Q4_K, 4096, 70, 3},
                    Case{GGML_TYPE_Q6_K, 14336, 40, 2}));

}  // namespace
}  // namespace swiftkv
