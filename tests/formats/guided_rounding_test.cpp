// SPDX-License-Identifier: Apache-2.0
// Compares guided rounding with the definition of its cost and with rounding to the nearest code.
#include "formats/guided_rounding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/cpu_features.h"
#include "base/fp8.h"
#include "formats/codec_table.h"
#include "formats/hadamard.h"
#include "formats/row_quantization.h"

namespace swiftkv {
namespace {

using Vector = std::vector<double>;

// The moment of queries that lie mostly in a few directions.
Vector FewDirections(std::size_t dim, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Vector moment(dim * dim);
  for (int query = 0; query < 400; ++query) {
    Vector q(dim);
    for (std::size_t i = 0; i < dim; ++i) {
      q[i] = normal(random) * (i % 8 == 3 ? 4.0 : 0.3) + (i % 16 == 5 ? 3.0 : 0.0);
    }
    for (std::size_t i = 0; i < dim; ++i) {
      for (std::size_t j = 0; j < dim; ++j) moment[i * dim + j] += q[i] * q[j];
    }
  }
  return moment;
}

// C' D C of a guide.
Vector Product(const RoundingGuide& guide, std::size_t dim) {
  Vector product(dim * dim);
  const auto c = [&](std::size_t j, std::size_t i) {
    return i == j ? 1.0 : static_cast<double>(guide.spread[i * dim + j]);
  };
  for (std::size_t i = 0; i < dim; ++i) {
    for (std::size_t k = 0; k < dim; ++k) {
      for (std::size_t j = std::max(i, k); j < dim; ++j) {
        product[i * dim + k] += c(j, i) * static_cast<double>(guide.weights[j]) * c(j, k);
      }
    }
  }
  return product;
}

double Quadratic(const Vector& matrix, const Vector& e) {
  double sum = 0;
  for (std::size_t i = 0; i < e.size(); ++i) {
    for (std::size_t j = 0; j < e.size(); ++j) sum += e[i] * matrix[i * e.size() + j] * e[j];
  }
  return sum;
}

std::vector<float> NormalRows(std::size_t count, std::size_t dim, float deviation) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0.0F, deviation);
  std::vector<float> rows(count * dim);
  for (float& value : rows) value = normal(random);
  return rows;
}

struct Grid {
  const char* name;
  RoundGuided GuidedRounding::*round;
  void (*RowQuantization::*nearest)(const float*, float, std::uint8_t*, std::size_t);
  float deviation;  // of rows, in units of codes
  float (*level)(std::uint8_t code);
};

const Grid kGrids[] = {
    {"int8", &GuidedRounding::to_int8, &RowQuantization::to_int8, 40.0F,
     [](std::uint8_t code) { return static_cast<float>(code) - 128.0F; }},
    {"int4", &GuidedRounding::to_int4, &RowQuantization::to_int4, 46.0F,
     [](std::uint8_t code) { return static_cast<float>(kInt4Levels[code]); }},
    {"e4m3", &GuidedRounding::to_e4m3, &RowQuantization::to_e4m3, 100.0F, Fp8E4m3::ToFloat},
    {"e5m2", &GuidedRounding::to_e5m2, &RowQuantization::to_e5m2, 9000.0F, Fp8E5m2::ToFloat},
};

struct GuidedResult {
  std::vector<std::uint8_t> codes;
  std::vector<float> costs;
};

GuidedResult Round(const Grid& grid, const RoundingGuide& guide, const std::vector<float>& rows,
                   std::size_t dim, const GuidedRounding& rounding = HostGuidedRounding()) {
  const std::size_t count = rows.size() / dim;
  GuidedResult result = {std::vector<std::uint8_t>(rows.size()), std::vector<float>(count)};
  const std::vector<float> factors(count, 1.0F);
  (rounding.*grid.round)({.guide = &guide,
                          .rows = rows.data(),
                          .row_stride = dim,
                          .dim = dim,
                          .count = count,
                          .factors = factors.data(),
                          .codes = result.codes.data(),
                          .costs = result.costs.data()});
  return result;
}

TEST(RoundingGuideTest, FactorsGiveTheRotatedMomentWithATenthOnItsDiagonal) {
  for (const std::size_t dim : {16U, 64U, 80U}) {
    const Vector moment = FewDirections(dim, 3);
    double trace = 0;
    for (std::size_t i = 0; i < dim; ++i) trace += moment[i * dim + i];
    const Vector product = Product(GuideForQueries(moment, static_cast<int>(dim)), dim);
    for (std::size_t k = 0; k < dim; ++k) {
      // A unit vector of the stored channels, turned back: H is its own inverse.
      std::vector<float> unit(dim);
      unit[k] = 1.0F;
      RotateRow(unit.data(), static_cast<int>(dim));
      const Vector e(unit.begin(), unit.end());
      const double expected = Quadratic(moment, e) * static_cast<double>(dim) / trace + 0.1;
      EXPECT_NEAR(product[k * dim + k], expected, 1e-4 * expected + 1e-5) << dim << " " << k;
    }
  }
}

TEST(RoundingGuideTest, QueriesOfNoUseLeaveEachValueToItsNearestCode) {
  const std::size_t dim = 32;
  const std::vector<float> rows = NormalRows(3, dim, 1.0F);
  Vector broken = FewDirections(dim, 3);
  broken[5] = NAN;
  for (const Vector& moment : {Vector(dim * dim), broken, Vector(dim * dim, -1.0)}) {
    const RoundingGuide guide = GuideForQueries(moment, static_cast<int>(dim));
    for (const Grid& grid : kGrids) {
      SCOPED_TRACE(grid.name);
      std::vector<float> scaled = rows;
      for (float& value : scaled) value *= grid.deviation;
      std::vector<std::uint8_t> nearest(rows.size());
      (HostRowQuantization().*grid.nearest)(scaled.data(), 1.0F, nearest.data(), nearest.size());
      EXPECT_EQ(Round(grid, guide, scaled, dim).codes, nearest);
    }
  }
}

TEST(GuidedRoundingTest, CostsAreTheSquaredErrorOfScoresAndLessThanThatOfNearestCodes) {
  for (const std::size_t dim : {16U, 64U, 96U}) {
    const RoundingGuide guide = GuideForQueries(FewDirections(dim, 7), static_cast<int>(dim));
    const Vector moment = Product(guide, dim);
    for (const Grid& grid : kGrids) {
      SCOPED_TRACE(grid.name + std::to_string(dim));
      const std::vector<float> rows = NormalRows(13, dim, grid.deviation);
      const GuidedResult guided = Round(grid, guide, rows, dim);
      std::vector<std::uint8_t> nearest(rows.size());
      (HostRowQuantization().*grid.nearest)(rows.data(), 1.0F, nearest.data(), nearest.size());
      double guided_sum = 0;
      double nearest_sum = 0;
      for (std::size_t t = 0; t < 13; ++t) {
        Vector e(dim);
        Vector plain(dim);
        for (std::size_t i = 0; i < dim; ++i) {
          const std::size_t at = t * dim + i;
          e[i] = static_cast<double>(rows[at] - grid.level(guided.codes[at]));
          plain[i] = static_cast<double>(rows[at] - grid.level(nearest[at]));
        }
        const double cost = Quadratic(moment, e);
        EXPECT_NEAR(static_cast<double>(guided.costs[t]), cost, 1e-3 * cost);
        guided_sum += cost;
        nearest_sum += Quadratic(moment, plain);
      }
      EXPECT_LT(guided_sum, 0.6 * nearest_sum);
    }
  }
}

TEST(GuidedRoundingTest, ARowsCodesDoNotDependOnTheRowsBesideIt) {
  const std::size_t dim = 64;
  const RoundingGuide guide = GuideForQueries(FewDirections(dim, 1), static_cast<int>(dim));
  for (const Grid& grid : kGrids) {
    const std::vector<float> rows = NormalRows(16, dim, grid.deviation);
    const std::vector<std::uint8_t> together = Round(grid, guide, rows, dim).codes;
    for (std::size_t t = 0; t < 16; ++t) {
      const auto row = rows.begin() + static_cast<std::ptrdiff_t>(t * dim);
      const std::vector<std::uint8_t> alone =
          Round(grid, guide, {row, row + static_cast<std::ptrdiff_t>(dim)}, dim).codes;
      const auto expected = together.begin() + static_cast<std::ptrdiff_t>(t * dim);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), expected)) << grid.name << " " << t;
    }
  }
}

TEST(GuidedRoundingTest, EveryInstructionSetGivesTheSameCodesAndCosts) {
  for (const std::size_t dim : {16U, 64U, 80U, 256U}) {
    const RoundingGuide guide = GuideForQueries(FewDirections(dim, 5), static_cast<int>(dim));
    for (const Grid& grid : kGrids) {
      for (const std::size_t count : {1U, 7U, 16U}) {
        const std::vector<float> rows = NormalRows(count, dim, grid.deviation);
        const GuidedResult portable =
            Round(grid, guide, rows, dim, GuidedRoundingFor(Isa::kPortable));
        for (const Isa isa : AllIsas()) {
          if (!Runs(HostCpu(), isa)) continue;
          SCOPED_TRACE(std::string(grid.name) + " " + IsaName(isa));
          const GuidedResult result = Round(grid, guide, rows, dim, GuidedRoundingFor(isa));
          EXPECT_EQ(result.codes, portable.codes);
          EXPECT_EQ(result.costs, portable.costs);
        }
      }
    }
  }
}

// A plane of keys in any format.
struct alignas(kPageAlignment) KeyMemory {
  std::byte data[kPageTokens * 64 * sizeof(float)];
  std::uint16_t scales[kPageTokens];
};

std::vector<float> ThroughPlane(const PageCodec& codec, const std::vector<float>& rows,
                                const RoundingGuide* guide) {
  KeyMemory memory{};
  std::uint16_t* const scales = codec.info().has_scales ? memory.scales : nullptr;
  MutablePlane plane = {Plane::kKey, 64, memory.data, scales};
  plane.guide = guide;
  codec.Encode(plane, {0, kPageTokens}, rows.data(), 64);
  std::vector<float> decoded(rows.size());
  codec.Decode({Plane::kKey, 64, memory.data, scales}, {0, kPageTokens}, decoded.data(), 64);
  return decoded;
}

TEST(GuidedRoundingTest, PlanesWrittenUnderAGuideDecodeToSmallerErrorsOfScores) {
  const std::size_t dim = 64;
  const Vector moment = FewDirections(dim, 2);
  const RoundingGuide guide = GuideForQueries(moment, static_cast<int>(dim));
  const std::vector<float> rows = NormalRows(kPageTokens, dim, 2.0F);
  for (const PageCodec* codec : AllCodecs()) {
    SCOPED_TRACE(codec->info().name);
    const std::vector<float> guided = ThroughPlane(*codec, rows, &guide);
    const std::vector<float> plain = ThroughPlane(*codec, rows, nullptr);
    if (!codec->info().has_scales) {
      EXPECT_EQ(guided, plain);
      continue;
    }
    double guided_sum = 0;
    double plain_sum = 0;
    for (std::size_t t = 0; t < kPageTokens; ++t) {
      Vector guided_errors(dim);
      Vector plain_errors(dim);
      for (std::size_t i = 0; i < dim; ++i) {
        guided_errors[i] = static_cast<double>(guided[t * dim + i] - rows[t * dim + i]);
        plain_errors[i] = static_cast<double>(plain[t * dim + i] - rows[t * dim + i]);
      }
      guided_sum += Quadratic(moment, guided_errors);
      plain_sum += Quadratic(moment, plain_errors);
    }
    EXPECT_LT(guided_sum, 0.6 * plain_sum);
  }
}

TEST(GuidedRoundingTest, HugeUnevenAndZeroRowsStayFinite) {
  const std::size_t dim = 64;
  const RoundingGuide guide = GuideForQueries(FewDirections(dim, 2), static_cast<int>(dim));
  std::vector<float> rows = NormalRows(kPageTokens, dim, 1.0F);
  for (std::size_t i = 0; i < dim; ++i) {
    rows[i] = 0;
    rows[dim + i] *= 1e5F;
    rows[2 * dim + i] *= 1e30F;
    rows[3 * dim + i] *= 1e-30F;
  }
  rows[4 * dim + 9] = 500;
  rows[5 * dim + 9] = INFINITY;
  rows[6 * dim + 9] = NAN;
  for (const PageCodec* codec : AllCodecs()) {
    const std::vector<float> decoded = ThroughPlane(*codec, rows, &guide);
    for (std::size_t i = 0; i < decoded.size(); ++i) {
      ASSERT_TRUE(std::isfinite(decoded[i])) << codec->info().name << " " << i;
    }
    for (std::size_t i = 0; i < dim; ++i) EXPECT_EQ(decoded[i], 0.0F) << codec->info().name;
  }
}

}  // namespace
}  // namespace swiftkv
