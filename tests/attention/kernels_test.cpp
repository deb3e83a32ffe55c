// SPDX-License-Identifier: Apache-2.0
// Tests the pieces of the kernels of every instruction set against the obvious loop in double.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "attention/kernels.h"
#include "base/cpu_features.h"

namespace swiftkv {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<const AttentionKernels*> KernelsOfThisMachine() {
  std::vector<const AttentionKernels*> all = {PortableKernels()};
  if (Runs(HostCpu(), Isa::kAvx2) && Avx2Kernels() != nullptr) all.push_back(Avx2Kernels());
  if (Runs(HostCpu(), Isa::kAvx512) && Avx512Kernels() != nullptr) all.push_back(Avx512Kernels());
  if (Runs(HostCpu(), Isa::kAvx512Vnni) && Avx512VnniKernels() != nullptr) {
    all.push_back(Avx512VnniKernels());
  }
  if (Runs(HostCpu(), Isa::kAvx512Fp16) && Avx512Fp16Kernels() != nullptr) {
    all.push_back(Avx512Fp16Kernels());
  }
  return all;
}

// One query vector's softmax state over a head of 16 values.
struct Softmax {
  float max = -kInfinity;
  float sums[16] = {};
  float out[16] = {};

  SoftmaxStep Step(float* scores, int pages) {
    return {.scores = scores,
            .vectors = 1,
            .pages = pages,
            .max = &max,
            .sums = sums,
            .out = out,
            .out_stride = 16,
            .head_dim = 16};
  }
  double sum() const {
    double total = 0;
    for (const float lane : sums) total += lane;
    return total;
  }
};

TEST(AttentionKernelsTest, WeightsArePowersOfTwoToTheLastBits) {
  for (const AttentionKernels* kernels : KernelsOfThisMachine()) {
    for (float low = -125; low < 0; low += 1.37F) {
      float scores[kBatchTokens];
      scores[0] = 0;
      for (int i = 1; i < kBatchTokens; ++i) scores[i] = low * static_cast<float>(i) / 64;
      const std::vector<float> raw(scores, scores + kBatchTokens);
      Softmax softmax;
      kernels->softmax_step(softmax.Step(scores, kBatchPages));
      EXPECT_EQ(scores[0], 1.0F) << kernels->isa;
      for (int i = 1; i < kBatchTokens; ++i) {
        const double expected = std::exp2(static_cast<double>(raw[static_cast<std::size_t>(i)]));
        EXPECT_NEAR(scores[i] / expected, 1, 1.3e-7) << kernels->isa << " " << low << " " << i;
      }
    }
  }
}

TEST(AttentionKernelsTest, InvisibleSlotsWeighNothingAndTinyWeightsVanish) {
  for (const AttentionKernels* kernels : KernelsOfThisMachine()) {
    float scores[kBatchTokens];
    for (int i = 0; i < kBatchTokens; ++i) scores[i] = i % 2 == 0 ? -kInfinity : -1e30F;
    scores[5] = 3;
    Softmax softmax;
    kernels->softmax_step(softmax.Step(scores, kBatchPages));
    EXPECT_EQ(softmax.max, 3.0F) << kernels->isa;
    EXPECT_EQ(softmax.sum(), 1.0) << kernels->isa;
    for (int i = 0; i < kBatchTokens; ++i) EXPECT_EQ(scores[i], i == 5 ? 1.0F : 0.0F);
  }
}

TEST(AttentionKernelsTest, ABatchThatNoSlotIsVisibleOfChangesNothing) {
  for (const AttentionKernels* kernels : KernelsOfThisMachine()) {
    float scores[kBatchTokens];
    Softmax softmax;
    for (const float first_max : {-kInfinity, 2.0F}) {
      softmax.max = first_max;
      std::fill_n(scores, kBatchTokens, -kInfinity);
      kernels->softmax_step(softmax.Step(scores, kBatchPages));
      EXPECT_EQ(softmax.max, first_max) << kernels->isa;
      EXPECT_EQ(softmax.sum(), 0.0) << kernels->isa;
      for (const float weight : scores) EXPECT_EQ(weight, 0.0F) << kernels->isa;
    }
  }
}

TEST(AttentionKernelsTest, ARisingMaximumRescalesWhatWasSummed) {
  for (const AttentionKernels* kernels : KernelsOfThisMachine()) {
    float scores[kBatchTokens];
    Softmax softmax;
    std::fill_n(scores, kBatchTokens, 1.0F);
    kernels->softmax_step(softmax.Step(scores, 1));
    softmax.out[7] = 8;
    std::fill_n(scores, kBatchTokens, 4.0F);
    kernels->softmax_step(softmax.Step(scores, 2));
    EXPECT_EQ(softmax.max, 4.0F) << kernels->isa;
    EXPECT_EQ(softmax.out[7], 1.0F) << kernels->isa;
    EXPECT_EQ(softmax.sum(), 16.0 / 8 + 32) << kernels->isa;
  }
}

TEST(AttentionKernelsTest, SoftcapIsATanhThatStaysRelativelyExactNearZero) {
  for (const AttentionKernels* kernels : KernelsOfThisMachine()) {
    for (const float softcap : {0.5F, 30.0F}) {
      for (float size = 1e-6F; size < 1e4F; size *= 3) {
        float scores[kBatchTokens];
        for (int i = 0; i < kBatchTokens; ++i) scores[i] = size * static_cast<float>(i - 32) / 32;
        const std::vector<float> raw(scores, scores + kBatchTokens);
        kernels->adjust_scores({.scores = scores,
                                .vectors = 1,
                                .pages = kBatchPages,
                                .softcap = softcap,
                                .positions = nullptr,
                                .first_visible = nullptr,
                                .last_visible = nullptr});
        for (int i = 0; i < kBatchTokens; ++i) {
          const double x = static_cast<double>(raw[static_cast<std::size_t>(i)]) / softcap;
          const double expected = softcap * std::tanh(x);
          EXPECT_NEAR(scores[i], expected, 4e-7 * std::fabs(expected)) << kernels->isa << " " << x;
        }
      }
    }
  }
}

TEST(AttentionKernelsTest, OnlyPositionsWithinAVectorsRangeKeepTheirScore) {
  std::int32_t positions[kBatchTokens];
  for (int i = 0; i < kBatchTokens; ++i) positions[i] = 1000 + 3 * i;
  const std::int32_t first[] = {1000, 1001, std::numeric_limits<std::int32_t>::min()};
  const std::int32_t last[] = {1189, 1093, 999};
  for (const AttentionKernels* kernels : KernelsOfThisMachine()) {
    std::vector<float> scores(3 * kBatchTokens, std::numeric_limits<float>::quiet_NaN());
    for (int v = 0; v < 3; ++v) {
      for (int i = 0; i < kBatchTokens; ++i) {
        const bool visible = positions[i] >= first[v] && positions[i] <= last[v];
        if (visible) scores[static_cast<std::size_t>(v * kBatchTokens + i)] = 0.5F;
      }
    }
    kernels->adjust_scores({.scores = scores.data(),
                            .vectors = 3,
                            .pages = kBatchPages,
                            .softcap = 0,
                            .positions = positions,
                            .first_visible = first,
                            .last_visible = last});
    for (int v = 0; v < 3; ++v) {
      for (int i = 0; i < kBatchTokens; ++i) {
        const bool visible = positions[i] >= first[v] && positions[i] <= last[v];
        EXPECT_EQ(scores[static_cast<std::size_t>(v * kBatchTokens + i)],
                  visible ? 0.5F : -kInfinity)
            << kernels->isa << " " << v << " " << i;
      }
    }
  }
}

TEST(AttentionKernelsTest, AQueryThatIsNoNumberGivesNoScores) {
  constexpr int kDim = 64;
  alignas(64) std::byte plane[kDim * kPageTokens];
  std::memset(plane, 0x11, sizeof(plane));
  const std::uint16_t scales[kPageTokens] = {0x3C00, 0x3C00, 0x3C00, 0x3C00};
  BatchPlanes keys = {.now = {}, .ahead = {}, .scales = {}, .pages = 1, .bytes = sizeof(plane)};
  for (int p = 0; p < kBatchPages; ++p) {
    keys.now[p] = keys.ahead[p] = plane;
    keys.scales[p] = scales;
  }
  for (const AttentionKernels* kernels : KernelsOfThisMachine()) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
      std::vector<float> row(kRowStride, 1.0F);
      row[17] = bad;
      std::int8_t limbs[2 * kMaxHeadDim];
      float scale = 0;
      std::int32_t sums[2] = {};
      std::uint16_t halves[2 * kMaxHeadDim];
      float half_scales[2] = {};
      const QueryTile query = {.rows = row.data(),
                               .bytes = {limbs, &scale, sums},
                               .halves = {halves, half_scales},
                               .vectors = 1,
                               .head_dim = kDim};
      if (kernels->prepare_queries != nullptr) kernels->prepare_queries(query);
      for (const FormatId format : {FormatId::kFp8E4m3, FormatId::kFp8E5m2, FormatId::kInt8}) {
        float scores[kBatchTokens];
        kernels->dot[static_cast<std::size_t>(format)](query, keys, scores);
        EXPECT_FALSE(std::isfinite(scores[0]))
            << kernels->isa << " format " << static_cast<int>(format) << " " << bad;
      }
    }
  }
}

// Small integers, so that every sum is exact and no row or column of another block may be touched.
TEST(AttentionKernelsTest, ProductsOfEverySizeEqualTheObviousLoop) {
  std::mt19937 random(3);
  std::uniform_int_distribution<int> digit(-3, 3);
  const BatchPlanes no_planes = {.now = {}, .ahead = {}, .scales = {}, .pages = 1, .bytes = 0};
  for (const AttentionKernels* kernels : KernelsOfThisMachine()) {
    for (int m = 1; m <= 14; ++m) {
      for (int n = 1; n <= 9; ++n) {
        const int k = 1 + (m * n) % 23;
        const int c_stride = 16 * n + 16;
        std::vector<float> a(static_cast<std::size_t>(m * (k + 1)));
        std::vector<float> b(static_cast<std::size_t>(k * 16 * n));
        std::vector<float> c(static_cast<std::size_t>((m + 1) * c_stride));
        for (auto* matrix : {&a, &b, &c}) {
          for (float& value : *matrix) value = static_cast<float>(digit(random));
        }
        const bool accumulate = (m + n) % 2 == 0;
        std::vector<float> expected = c;
        for (int i = 0; i < m; ++i) {
          for (int j = 0; j < 16 * n; ++j) {
            float& sum = expected[static_cast<std::size_t>(i * c_stride + j)];
            if (!accumulate) sum = 0;
            for (int x = 0; x < k; ++x) {
              sum += a[static_cast<std::size_t>(i * (k + 1) + x)] *
                     b[static_cast<std::size_t>(x * 16 * n + j)];
            }
          }
        }
        kernels->multiply({.a = a.data(),
                           .b = b.data(),
                           .c = c.data(),
                           .a_stride = k + 1,
                           .b_stride = 16 * n,
                           .c_stride = c_stride,
                           .m = m,
                           .n = n,
                           .k = k,
                           .accumulate = accumulate,
                           .planes = &no_planes});
        EXPECT_EQ(c, expected) << kernels->isa << " " << m << " " << n << " " << k;
      }
    }
  }
}

}  // namespace
}  // namespace swiftkv
