// SPDX-License-Identifier: Apache-2.0
// Tests that packed activations are the nearest bytes, whoever packs them, whatever the input.
#include "model/byte_rows.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "model/byte_kernels.h"

namespace swiftkv {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Every table that this machine runs.
std::vector<const ByteKernels*> RunnableKernels() {
  std::vector<const ByteKernels*> tables = {PortableByteKernels()};
  if (const ByteKernels* best = FindByteKernels(BestIsa(HostCpu()))) tables.push_back(best);
  return tables;
}

std::vector<float> RandomRows(std::int64_t count, float scale) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<ByteBlock> Pack(const ByteKernels& kernels, const FloatRows& rows, int num_threads) {
  std::vector<ByteBlock> blocks(static_cast<std::size_t>(rows.rows * rows.inputs / kByteBlock));
  for (int thread = 0; thread < num_threads; ++thread) {
    PackByteRows(kernels, rows, blocks.data(), thread, num_threads);
  }
  return blocks;
}

auto BytesOf(const ByteBlock& block) {
  return std::bit_cast<std::array<std::byte, sizeof(ByteBlock)>>(block);
}

// One block of `values`, zeros beyond.
ByteBlock PackOne(const ByteKernels& kernels, std::vector<float> values) {
  values.resize(kByteBlock);
  return Pack(kernels, {values.data(), kByteBlock, 1, kByteBlock}, 1)[0];
}

TEST(ByteRowsTest, CodesTimesTheScaleAreTheNearestToTheInputs) {
  for (const ByteKernels* kernels : RunnableKernels()) {
    for (const float magnitude : {1e-30F, 1.0F, 1e30F}) {
      const auto values = RandomRows(3 * 96, magnitude);
      const auto blocks = Pack(*kernels, {values.data(), 96, 3, 96}, 1);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const ByteBlock& block = blocks[i / kByteBlock];
        EXPECT_NEAR(block.scale * block.codes[i % kByteBlock], values[i], block.scale * .50001F)
            << kernels->isa << " " << i;
      }
    }
  }
}

TEST(ByteRowsTest, ManyBlocksAreEachPackedAsOneAlone) {
  constexpr std::int64_t kInputs = 53 * kByteBlock;
  auto values = RandomRows(kInputs, 1);
  values[20 * kByteBlock + 3] = kInfinity;
  for (int i = 0; i < kByteBlock; ++i) values[static_cast<std::size_t>(i)] = 0x1p-130F;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] *= std::ldexp(1.0F, static_cast<int>(i / kByteBlock % 7) * 9 - 30);
  }
  for (const ByteKernels* kernels : RunnableKernels()) {
    const auto blocks = Pack(*kernels, {values.data(), kInputs, 1, kInputs}, 1);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto from = values.begin() + static_cast<std::ptrdiff_t>(i * kByteBlock);
      const ByteBlock one = PackOne(*kernels, {from, from + kByteBlock});
      if (i == 20) {
        EXPECT_TRUE(std::isinf(blocks[i].scale) && std::isnan(blocks[i].sum)) << kernels->isa;
      } else {
        EXPECT_EQ(BytesOf(blocks[i]), BytesOf(one)) << kernels->isa << " " << i;
      }
    }
  }
}

TEST(ByteRowsTest, SumsAreThoseOfTheCodes) {
  for (const ByteKernels* kernels : RunnableKernels()) {
    const auto values = RandomRows(640, 3);
    for (const ByteBlock& block : Pack(*kernels, {values.data(), 640, 1, 640}, 1)) {
      int sum = 0;
      int half = 0;
      for (int i = 0; i < kByteBlock; ++i) {
        sum += block.codes[i];
        if (i < kByteBlock / 2) half += block.codes[i];
      }
      EXPECT_EQ(block.minus_codes, -sum) << kernels->isa;
      EXPECT_EQ(block.minus_half, -half) << kernels->isa;
      EXPECT_EQ(block.sum, block.scale * static_cast<float>(sum)) << kernels->isa;
    }
  }
}

TEST(ByteRowsTest, TablesAndSplitsOverThreadsGiveTheSameBytes) {
  constexpr std::int64_t kStride = 330;
  const auto values = RandomRows(7 * kStride, 1);
  const FloatRows rows = {values.data(), kStride, 7, 320};
  const auto expected = Pack(*PortableByteKernels(), rows, 1);
  for (const ByteKernels* kernels : RunnableKernels()) {
    for (const int num_threads : {1, 2, 3, 64, 100}) {
      const auto blocks = Pack(*kernels, rows, num_threads);
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        EXPECT_EQ(BytesOf(blocks[i]), BytesOf(expected[i])) << kernels->isa << " " << num_threads;
      }
    }
  }
}

TEST(ByteRowsTest, TheLargestInputIsTheLargestCodeWhateverItsSize) {
  for (const ByteKernels* kernels : RunnableKernels()) {
    for (const float largest : {0x1p-119F, 1e-20F, 1.0F, 1e30F, 3.4e38F}) {
      const ByteBlock block = PackOne(*kernels, {largest, -largest, largest / 2});
      EXPECT_EQ(block.codes[0], 127) << kernels->isa << " " << largest;
      EXPECT_EQ(block.codes[1], -127) << kernels->isa << " " << largest;
      EXPECT_FLOAT_EQ(block.scale, largest / 127) << kernels->isa;
    }
  }
}

TEST(ByteRowsTest, ZerosAndWhatIsNearThemAreZero) {
  for (const ByteKernels* kernels : RunnableKernels()) {
    EXPECT_EQ(PackOne(*kernels, {}).scale, 0.0F) << kernels->isa;
    const ByteBlock block = PackOne(*kernels, {0x1p-121F, -0x1p-149F});
    EXPECT_EQ(block.codes[0], 0) << kernels->isa;
    EXPECT_EQ(block.minus_codes, 0) << kernels->isa;
    EXPECT_LE(block.scale, 0x1p-120F) << kernels->isa;
  }
}

TEST(ByteRowsTest, WhatIsNoNumberStaysInItsBlockAndBreaksNoCode) {
  for (const ByteKernels* kernels : RunnableKernels()) {
    for (const float odd : {std::nanf(""), -std::nanf(""), kInfinity, -kInfinity}) {
      for (const int place : {0, 15, 16, 31, 40, 63}) {
        auto values = RandomRows(64, 1);
        const auto plain = Pack(*kernels, {values.data(), 64, 1, 64}, 1);
        values[static_cast<std::size_t>(place)] = odd;
        const auto blocks = Pack(*kernels, {values.data(), 64, 1, 64}, 1);
        const ByteBlock& hit = blocks[static_cast<std::size_t>(place / kByteBlock)];
        EXPECT_FALSE(std::isfinite(hit.scale)) << kernels->isa << " " << odd << " " << place;
        EXPECT_EQ(hit.codes[place % kByteBlock], 0) << kernels->isa << " " << odd << " " << place;
        const std::size_t other = place < kByteBlock ? 1 : 0;
        EXPECT_EQ(BytesOf(blocks[other]), BytesOf(plain[other]))
            << kernels->isa << " " << odd << " " << place;
      }
    }
  }
}

}  // namespace
}  // namespace swiftkv
