// SPDX-License-Identifier: Apache-2.0
// Tests byte products of every weight type and table of kernels against plain sums in double
// precision of what ggml says the weights are, and against the portable kernels bit for bit.
#include "model/byte_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "model/byte_formats.h"

namespace swiftkv {
namespace {

std::vector<const ByteKernels*> RunnableKernels() {
  std::vector<const ByteKernels*> tables = {PortableByteKernels()};
  if (const ByteKernels* best = FindByteKernels(BestIsa(HostCpu()))) tables.push_back(best);
  return tables;
}

std::vector<float> RandomValues(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(.1F, 1);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// Random weights of a format in a buffer that ends with them.
struct Weights {
  Weights(const ByteFormat& format, std::int64_t num_inputs, std::int64_t num_outputs)
      : type(format.type), inputs(num_inputs), outputs(num_outputs) {
    const auto values = RandomValues(inputs * outputs, 1);
    bytes.resize(ggml_row_size(type, inputs) * static_cast<std::size_t>(outputs));
    ggml_quantize_chunk(type, values.data(), bytes.data(), 0, outputs, inputs, nullptr);
    bytes.shrink_to_fit();
  }

  ByteProduct product() const {
    return {type, bytes.data(), static_cast<std::int64_t>(ggml_row_size(type, inputs)), inputs,
            outputs};
  }
  std::vector<float> Decoded() const {
    std::vector<float> values(static_cast<std::size_t>(inputs * outputs));
    ggml_get_type_traits(type)->to_float(bytes.data(), values.data(), inputs * outputs);
    return values;
  }

  ggml_type type;
  std::int64_t inputs;
  std::int64_t outputs;
  std::vector<std::byte> bytes;
};

struct PackedRows {
  PackedRows(const std::vector<float>& values, std::int64_t rows, std::int64_t inputs)
      : blocks(static_cast<std::size_t>(rows * inputs / kByteBlock)) {
    PackByteRows(*PortableByteKernels(), {values.data(), inputs, rows, inputs}, blocks.data(), 0,
                 1);
    view = ViewByteRows(blocks.data(), rows, inputs);
  }
  double Input(std::int64_t row, std::int64_t input) const {
    const ByteBlock& block =
        blocks[static_cast<std::size_t>(row * view.row_blocks() + input / kByteBlock)];
    return double{block.scale} * block.codes[input % kByteBlock];
  }

  std::vector<ByteBlock> blocks;
  ByteRows view;
};

constexpr float kUntouched = -77;

std::vector<float> Multiply(const ByteKernels& kernels, const ByteProduct& product,
                            const ByteRows& rows, const std::vector<ByteRange>& ranges) {
  const std::int64_t stride = product.outputs + 3;
  std::vector<float> out(static_cast<std::size_t>(rows.rows * stride), kUntouched);
  alignas(64) static std::byte scratch[kByteScratchBytes];
  for (const ByteRange& range : ranges) {
    MultiplyBytes(kernels, product, rows, range, scratch, {out.data(), stride});
  }
  return out;
}

std::vector<float> MultiplyAll(const ByteKernels& kernels, const ByteProduct& product,
                               const ByteRows& rows) {
  return Multiply(kernels, product, rows, {{0, product.outputs, 0, rows.rows}});
}

void ExpectSameBits(const std::vector<float>& out, const std::vector<float>& expected,
                    const std::string& what) {
  ASSERT_LE(out.size(), expected.size()) << what;
  for (std::size_t i = 0; i < out.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), std::bit_cast<std::uint32_t>(expected[i]))
        << what << " at " << i << ": " << out[i] << " and " << expected[i];
  }
}

// Expects row-major [rows, outputs + 3] to be the products, the last three untouched.
void ExpectProducts(const std::vector<float>& out, const Weights& weights, const PackedRows& rows,
                    const std::string& what) {
  const auto decoded = weights.Decoded();
  const std::int64_t stride = weights.outputs + 3;
  for (std::int64_t row = 0; row < rows.view.rows; ++row) {
    const float* const values = out.data() + row * stride;
    for (std::int64_t output = 0; output < weights.outputs; ++output) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t input = 0; input < weights.inputs; ++input) {
        const double term = rows.Input(row, input) *
                            decoded[static_cast<std::size_t>(output * weights.inputs + input)];
        sum += term;
        magnitude += std::fabs(term);
      }
      ASSERT_NEAR(values[output], sum, 1e-6 * magnitude) << what << " " << row << " " << output;
    }
    for (std::int64_t i = weights.outputs; i < stride; ++i) ASSERT_EQ(values[i], kUntouched);
  }
}

struct Shape {
  std::int64_t inputs;
  std::int64_t outputs;
  std::int64_t rows;
};

TEST(ByteProductsTest, EveryFormatMultipliesAsGgmlDecodesIt) {
  for (const ByteFormat& format : AllByteFormats()) {
    for (const Shape& shape :
         {Shape{32, 16, 5}, Shape{64, 17, 3}, Shape{96, 47, 9}, Shape{256, 40, 20},
          Shape{576, 100, 17}, Shape{1536, 33, 200}, Shape{14336, 17, 10}}) {
      if (!ServesByteProduct(format.type, shape.inputs, shape.outputs)) continue;
      const Weights weights(format, shape.inputs, shape.outputs);
      const PackedRows rows(RandomValues(shape.rows * shape.inputs, 2), shape.rows, shape.inputs);
      const auto expected = MultiplyAll(*PortableByteKernels(), weights.product(), rows.view);
      const std::string what = std::string(ggml_type_name(format.type)) + " " +
                               std::to_string(shape.inputs) + "x" + std::to_string(shape.outputs);
      ExpectProducts(expected, weights, rows, what);
      for (const ByteKernels* kernels : RunnableKernels()) {
        ExpectSameBits(MultiplyAll(*kernels, weights.product(), rows.view), expected,
                       what + " " + kernels->isa);
      }
    }
  }
}

TEST(ByteProductsTest, ARowComesOutTheSameBesideAnyNumberOfOthers) {
  constexpr std::int64_t kMostRows = 200;
  for (const ByteFormat& format : AllByteFormats()) {
    const Weights weights(format, 768, 57);
    const auto values = RandomValues(kMostRows * 768, 3);
    for (const ByteKernels* kernels : RunnableKernels()) {
      const auto expected =
          MultiplyAll(*kernels, weights.product(), PackedRows(values, kMostRows, 768).view);
      for (const std::int64_t count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 64}) {
        const PackedRows rows(values, count, 768);
        ExpectSameBits(MultiplyAll(*kernels, weights.product(), rows.view), expected,
                       std::string(ggml_type_name(format.type)) + " " + kernels->isa + " rows " +
                           std::to_string(count));
      }
    }
  }
}

TEST(ByteProductsTest, SplitsOverThreadsGiveTheSameBits) {
  for (const ByteFormat& format : AllByteFormats()) {
    const Weights weights(format, 256, 150);
    for (const std::int64_t count : {3, 40}) {
      const PackedRows rows(RandomValues(count * 256, 4), count, 256);
      for (const ByteKernels* kernels : RunnableKernels()) {
        const auto expected = MultiplyAll(*kernels, weights.product(), rows.view);
        for (const int num_threads : {1, 2, 3, 7, 20}) {
          std::vector<ByteRange> ranges;
          for (int thread = 0; thread < num_threads; ++thread) {
            ranges.push_back(ShareOfOutputs(150, count, thread, num_threads));
          }
          ExpectSameBits(Multiply(*kernels, weights.product(), rows.view, ranges), expected,
                         std::string(kernels->isa) + " " + std::to_string(num_threads));
        }
      }
    }
  }
}

TEST(ByteProductsTest, WhatIsReadNextChangesNothing) {
  const Weights weights(*FindByteFormat(GGML_TYPE_Q4_1), 576, 50);
  const Weights others(*FindByteFormat(GGML_TYPE_Q4_1), 64, 16);
  const PackedRows rows(RandomValues(2 * 576, 5), 2, 576);
  for (const ByteKernels* kernels : RunnableKernels()) {
    const auto expected = MultiplyAll(*kernels, weights.product(), rows.view);
    for (const std::int64_t bytes : {0, 1, 100, 640}) {
      const ByteRange range = {0, 50, 0, 2, others.bytes.data(), bytes};
      ExpectSameBits(Multiply(*kernels, weights.product(), rows.view, {range}), expected,
                     kernels->isa);
    }
  }
}

TEST(ByteProductsTest, ARangeWritesItsOwnOutputsAndNoOthers) {
  const ByteFormat& format = *FindByteFormat(GGML_TYPE_Q4_1);
  const Weights weights(format, 64, 45);
  const PackedRows rows(RandomValues(30 * 64, 5), 30, 64);
  for (const ByteKernels* kernels : RunnableKernels()) {
    const auto whole = MultiplyAll(*kernels, weights.product(), rows.view);
    for (std::int64_t first = 0; first < 45; ++first) {
      for (std::int64_t last = first; last <= 45; last += 4) {
        const auto out = Multiply(*kernels, weights.product(), rows.view, {{first, last, 3, 21}});
        for (std::int64_t i = 0; i < static_cast<std::int64_t>(out.size()); ++i) {
          const bool inside = i / 48 >= 3 && i / 48 < 21 && i % 48 >= first && i % 48 < last;
          const auto at = static_cast<std::size_t>(i);
          ASSERT_EQ(out[at], inside ? whole[at] : kUntouched)
              << kernels->isa << " [" << first << ", " << last << ") at " << i;
        }
      }
    }
  }
}

TEST(ByteProductsTest, NoNumberInARowStaysInThatRow) {
  for (const ByteFormat& format : AllByteFormats()) {
    const Weights weights(format, 512, 20);
    auto values = RandomValues(18 * 512, 6);
    for (const ByteKernels* kernels : RunnableKernels()) {
      const auto plain = MultiplyAll(*kernels, weights.product(), PackedRows(values, 18, 512).view);
      for (const float odd : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
        auto with_odd = values;
        with_odd[7 * 512 + 300] = odd;
        const auto out =
            MultiplyAll(*kernels, weights.product(), PackedRows(with_odd, 18, 512).view);
        for (std::size_t i = 0; i < out.size(); ++i) {
          if (i / 23 == 7 && i % 23 < 20) {
            EXPECT_FALSE(std::isfinite(out[i])) << kernels->isa << " " << i;
          } else {
            EXPECT_EQ(out[i], plain[i]) << kernels->isa << " " << i;
          }
        }
      }
    }
  }
}

TEST(ByteProductsTest, ZerosOnEitherSideGiveZero) {
  for (const ByteFormat& format : AllByteFormats()) {
    const Weights weights(format, 256, 16);
    Weights zero_weights = weights;
    std::fill(zero_weights.bytes.begin(), zero_weights.bytes.end(), std::byte{0});
    const PackedRows rows(RandomValues(9 * 256, 7), 9, 256);
    const PackedRows zero_rows(std::vector<float>(9 * 256), 9, 256);
    for (const ByteKernels* kernels : RunnableKernels()) {
      const auto of_weights = MultiplyAll(*kernels, zero_weights.product(), rows.view);
      const auto of_rows = MultiplyAll(*kernels, weights.product(), zero_rows.view);
      for (std::size_t i = 0; i < of_rows.size(); ++i) {
        EXPECT_EQ(of_weights[i], i % 19 < 16 ? 0.0F : kUntouched) << kernels->isa;
        EXPECT_EQ(of_rows[i], i % 19 < 16 ? 0.0F : kUntouched) << kernels->isa;
      }
    }
  }
}

TEST(ByteProductsTest, AnyBytesMultiplyAlikeInEveryTable) {
  for (const ByteFormat& format : AllByteFormats()) {
    Weights weights(format, 512, 24);
    std::mt19937 random(8);
    // The exponents of f16 scales stay small, so that sums are finite and can be compared.
    for (std::byte& byte : weights.bytes) byte = static_cast<std::byte>(random() & 0xBF);
    const PackedRows rows(RandomValues(5 * 512, 9), 5, 512);
    const auto expected = MultiplyAll(*PortableByteKernels(), weights.product(), rows.view);
    for (const ByteKernels* kernels : RunnableKernels()) {
      ExpectSameBits(MultiplyAll(*kernels, weights.product(), rows.view), expected,
                     std::string(ggml_type_name(format.type)) + " " + kernels->isa);
    }
  }
}

TEST(ByteProductsTest, OnlyWholeBlocksAndWholeStripsAreServed) {
  EXPECT_TRUE(ServesByteProduct(GGML_TYPE_Q4_1, 32, 16));
  EXPECT_FALSE(ServesByteProduct(GGML_TYPE_Q4_1, 32, 15));
  EXPECT_FALSE(ServesByteProduct(GGML_TYPE_Q4_1, 48, 16));
  EXPECT_FALSE(ServesByteProduct(GGML_TYPE_Q4_1, 0, 16));
  EXPECT_FALSE(ServesByteProduct(GGML_TYPE_Q4_K, 576, 16));
  EXPECT_FALSE(ServesByteProduct(GGML_TYPE_F16, 256, 16));
}

TEST(ByteProductsTest, BlocksAreOfTheSizesThatGgmlHas) {
  for (const ByteFormat& format : AllByteFormats()) {
    EXPECT_EQ(static_cast<std::size_t>(format.block_bytes), ggml_type_size(format.type));
    EXPECT_EQ(format.block_inputs, ggml_blck_size(format.type));
    EXPECT_EQ(FindByteFormat(format.type), &format);
  }
}

TEST(ByteProductsTest, AMachineWithoutByteProductsIsLeftToGgml) {
  EXPECT_EQ(FindByteKernels(Isa::kPortable), nullptr);
  EXPECT_EQ(FindByteKernels(Isa::kAvx2), nullptr);
  EXPECT_EQ(FindByteKernels(Isa::kAmx), FindByteKernels(Isa::kAvx512Vnni));
}

}  // namespace
}  // namespace swiftkv
