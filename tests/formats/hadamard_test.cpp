// SPDX-License-Identifier: Apache-2.0
// Checks the rotation of rows against the matrix that its header states.
#include "formats/hadamard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace swiftkv {
namespace {

std::vector<float> RandomRow(int head_dim) {
  std::mt19937 random(static_cast<unsigned>(head_dim));
  std::normal_distribution<float> normal;
  std::vector<float> row(static_cast<std::size_t>(head_dim));
  for (float& value : row) value = normal(random);
  return row;
}

TEST(HadamardTest, ARowIsMultipliedByBlocksOfTheWalshHadamardMatrix) {
  for (const int head_dim : {16, 48, 64, 80, 96, 112, 128, 192, 256}) {
    const std::vector<float> row = RandomRow(head_dim);
    std::vector<float> rotated = row;
    RotateRow(rotated.data(), head_dim);
    const int block = RotationBlock(head_dim);
    for (int i = 0; i < head_dim; ++i) {
      double sum = 0;
      for (int j = i / block * block; j < (i / block + 1) * block; ++j) {
        const bool negative = std::popcount(static_cast<unsigned>((i % block) & (j % block))) % 2;
        sum += negative ? -row[static_cast<std::size_t>(j)] : row[static_cast<std::size_t>(j)];
      }
      EXPECT_NEAR(rotated[static_cast<std::size_t>(i)], sum / std::sqrt(block), 2e-6)
          << head_dim << " " << i;
    }
  }
}

TEST(HadamardTest, RotatingTwiceGivesTheRowBack) {
  for (const int head_dim : {16, 80, 128, 256}) {
    const std::vector<float> row = RandomRow(head_dim);
    std::vector<float> twice = row;
    RotateRow(twice.data(), head_dim);
    RotateRow(twice.data(), head_dim);
    for (std::size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(twice[i], row[i], 2e-6);
  }
}

TEST(HadamardTest, BlocksAreTheLargestPowerOfTwoThatDivides) {
  EXPECT_EQ(RotationBlock(64), 64);
  EXPECT_EQ(RotationBlock(80), 16);
  EXPECT_EQ(RotationBlock(96), 32);
  EXPECT_EQ(RotationBlock(192), 64);
}

}  // namespace
}  // namespace swiftkv
