// SPDX-License-Identifier: Apache-2.0
// Compares products in matrix registers, emulated and where the CPU has them, with plain sums.
#include "attention/tile_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "attention/tile_permission.h"
#include "base/cpu_features.h"
#include "base/half.h"
#include "support/emulated_tiles.h"

namespace swiftkv {
namespace {

std::vector<const AttentionKernels*> KernelsWithTiles() {
  std::vector<const AttentionKernels*> kernels{EmulatedAmxKernels()};
  if (Runs(HostCpu(), Isa::kAmx) && RequestTilePermission().ok() && AmxKernels() != nullptr) {
    kernels.push_back(AmxKernels());
  }
  return kernels;
}

// Rounds to what a page of a lossy format holds: an integer of 8 bits.
float Code(float x) { return std::round(std::fmin(std::fmax(x * 40, -127.0F), 127.0F)); }

// Operands of one batch; what no slot or channel stands for is NaN.
struct Operands {
  Operands(int num_vectors, int dim, int num_tokens, bool lossy)
      : vectors(num_vectors), head_dim(dim), tokens(num_tokens) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    rows.assign(kMaxTileVectors * kRowStride, kNan);
    weights.assign(kMaxTileVectors * kBatchTokens, kNan);
    keys.assign(static_cast<std::size_t>(dim * kBatchTokens), kNan);
    values.assign(static_cast<std::size_t>(dim * kBatchTokens), kNan);
    scales.assign(kBatchTokens, 0x7E00);
    std::normal_distribution<float> normal;
    const auto content = [&] { return lossy ? Code(normal(random)) : normal(random); };
    for (int v = 0; v < vectors; ++v) {
      for (int c = 0; c < dim; ++c) Row(v)[c] = normal(random);
      for (int t = 0; t < tokens; ++t) Weight(v)[t] = std::fabs(normal(random));
    }
    for (int t = 0; t < tokens; ++t) {
      for (int c = 0; c < dim; ++c)
        keys[static_cast<std::size_t>(c * kBatchTokens + t)] = content();
      for (int c = 0; c < dim; ++c) values[static_cast<std::size_t>(t * dim + c)] = content();
      scales[static_cast<std::size_t>(t)] = FloatToHalf(0.02F + 0.001F * static_cast<float>(t));
    }
    planes.pages = (tokens + kPageTokens - 1) / kPageTokens;
    planes.bytes = 64;
    for (int p = 0; p < kBatchPages; ++p) {
      planes.now[p] = planes.ahead[p] = line;
      planes.scales[p] = lossy ? scales.data() + p * kPageTokens : nullptr;
    }
  }

  float* Row(int v) { return rows.data() + v * kRowStride; }
  float* Weight(int v) { return weights.data() + v * kBatchTokens; }
  double ScaleOf(int t) const {
    return planes.scales[0] == nullptr ? 1 : HalfToFloat(scales[static_cast<std::size_t>(t)]);
  }
  // A sum, and the sum of the terms' magnitudes, which rounding errors are measured by.
  struct Total {
    void Add(double term) {
      sum += term;
      magnitude += std::fabs(term);
    }
    double sum = 0;
    double magnitude = 0;
  };
  Total Score(int v, int t) {
    Total total;
    for (int c = 0; c < head_dim; ++c) {
      const float key = keys[static_cast<std::size_t>(c * kBatchTokens + t)];
      total.Add(static_cast<double>(Row(v)[c]) * key * ScaleOf(t));
    }
    return total;
  }
  Total Sum(int v, int c) {
    Total total;
    total.Add(1);  // what `out` starts from
    for (int t = 0; t < tokens; ++t) {
      const float value = values[static_cast<std::size_t>(t * head_dim + c)];
      total.Add(static_cast<double>(Weight(v)[t]) * value * ScaleOf(t));
    }
    return total;
  }
  TileBatch Batch(const std::vector<float>& unpacked, bool split) const {
    return {.planes = &planes,
            .unpacked = unpacked.data(),
            .vectors = vectors,
            .head_dim = head_dim,
            .tokens = tokens,
            .split_vectors = split,
            .split_pages = split};
  }

  std::mt19937 random{5};
  int vectors;
  int head_dim;
  int tokens;
  std::vector<float> rows;     // [kMaxTileVectors, kRowStride]
  std::vector<float> weights;  // [kMaxTileVectors, 64]
  std::vector<float> keys;     // [head_dim, 64]
  std::vector<float> values;   // [64, head_dim]
  std::vector<std::uint16_t> scales;
  std::byte line[64] = {};
  BatchPlanes planes{};
};

// `split` pages are any floats; others hold codes with scales.
void ExpectProductsAreRight(const TileKernels& tiles, const std::string& what, Operands operands,
                            bool split) {
  const double bound = split ? 0x1p-14 : 0x1.01p-8;
  const auto near = [&](float actual, const Operands::Total& expected) {
    return std::fabs(actual - expected.sum) <= bound * expected.magnitude;
  };
  const auto buffers = std::make_unique<TileBuffers>();
  std::vector<float> scores(kMaxTileVectors * kBatchTokens);
  std::vector<float> out(kMaxTileVectors * kRowStride, 1.0F);
  tiles.acquire();
  tiles.load_queries(operands.rows.data(), operands.vectors, operands.head_dim, buffers.get());
  tiles.score(operands.Batch(operands.keys, split), scores.data(), buffers.get());
  tiles.add_values(operands.Batch(operands.values, split), operands.weights.data(), out.data(),
                   buffers.get());
  tiles.release();
  for (int v = 0; v < operands.vectors; ++v) {
    for (int t = 0; t < operands.tokens; ++t) {
      const float score = scores[static_cast<std::size_t>(v * kBatchTokens + t)];
      ASSERT_TRUE(near(score, operands.Score(v, t))) << what << " vector " << v << " slot " << t;
    }
    for (int c = 0; c < operands.head_dim; ++c) {
      const float sum = out[static_cast<std::size_t>(v * kRowStride + c)];
      ASSERT_TRUE(near(sum, operands.Sum(v, c))) << what << " vector " << v << " channel " << c;
    }
  }
}

TEST(TileKernelsTest, ProductsOfEveryShapeAgreeWithPlainSums) {
  for (const AttentionKernels* kernels : KernelsWithTiles()) {
    for (const int vectors : {1, 16, 17, 33, 48, 90, 96}) {
      for (const int head_dim : {16, 64, 80, 112, 256}) {
        for (const int tokens : {1, 15, 16, 17, 33, 48, 63, 64}) {
          for (const bool split : {true, false}) {
            ExpectProductsAreRight(*kernels->tiles,
                                   std::string(kernels->isa) + " head_dim " +
                                       std::to_string(head_dim) + " tokens " +
                                       std::to_string(tokens) + (split ? " split" : " plain"),
                                   Operands(vectors, head_dim, tokens, !split), split);
          }
        }
      }
    }
  }
}

std::uint32_t Pair(float even, float odd) {
  return std::bit_cast<std::uint32_t>(even) >> 16 |
         (std::bit_cast<std::uint32_t>(odd) & 0xFFFF0000U);
}

TEST(EmulatedTilesTest, ADotProductAddsPairsOfRowsOfTheRightToRowsOfTheLeft) {
  EmulatedTile left{};
  EmulatedTile right{};
  EmulatedTile sums{};
  left.rows[2][3] = Pair(2, -3);
  right.rows[3][5] = Pair(7, 0.5F);
  right.rows[3][6] = Pair(1, 1);
  sums.rows[2][5] = std::bit_cast<std::uint32_t>(100.0F);
  EmulateDotBf16(left, right, &sums);
  EXPECT_EQ(std::bit_cast<float>(sums.rows[2][5]), 112.5F);
  EXPECT_EQ(std::bit_cast<float>(sums.rows[2][6]), -1.0F);
  EXPECT_EQ(std::bit_cast<float>(sums.rows[3][5]), 0.0F);
}

TEST(EmulatedTilesTest, DenormalsAreZerosAndSumsRoundToNearestEven) {
  EmulatedTile left{};
  EmulatedTile right{};
  EmulatedTile sums{};
  left.rows[0][0] = Pair(0x1p-130F, 0x1p-70F);
  right.rows[0][0] = Pair(0x1p100F, 0x1p-70F);  // a denormal operand, then a denormal product
  left.rows[1][0] = Pair(1, 0);
  right.rows[0][1] = Pair(0x1p-24F, 0);
  sums.rows[1][1] = std::bit_cast<std::uint32_t>(1.0F);
  EmulateDotBf16(left, right, &sums);
  EXPECT_EQ(sums.rows[0][0], 0U);
  EXPECT_EQ(std::bit_cast<float>(sums.rows[1][1]), 1.0F);  // half a last place: to the even one
}

TEST(EmulatedTilesDeathTest, RegistersAreThereBetweenAcquireAndReleaseOnly) {
  const TileKernels& tiles = *EmulatedAmxKernels()->tiles;
  Operands operands(16, 64, 64, false);
  const auto buffers = std::make_unique<TileBuffers>();
  std::vector<float> scores(kMaxTileVectors * kBatchTokens);
  EXPECT_DEATH(tiles.score(operands.Batch(operands.keys, true), scores.data(), buffers.get()),
               "before it is configured");
}

}  // namespace
}  // namespace swiftkv
