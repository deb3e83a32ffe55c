// SPDX-License-Identifier: Apache-2.0
// Quantises rows with the compiler's baseline and chooses between the instruction sets.
#include "formats/row_quantization.h"

#include <cmath>
#include <cstring>

#include "base/fp8.h"
#include "formats/row_quantization_avx2.h"

namespace swiftkv {
namespace {

void SanitizeRow(const float* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float value = from[i] == from[i] ? from[i] : 0.0F;
    to[i] = std::fmin(std::fmax(value, -kLargestInput), kLargestInput);
  }
}

float MaxAbsRow(const float* row, std::size_t count) {
  float max = 0;
  for (std::size_t i = 0; i < count; ++i) max = std::fmax(max, std::fabs(row[i]));
  return max;
}

void RowToE4m3(const float* row, float factor, std::uint8_t* codes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) codes[i] = Fp8E4m3::FromFloat(row[i] * factor);
}

void RowToE5m2(const float* row, float factor, std::uint8_t* codes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) codes[i] = Fp8E5m2::FromFloat(row[i] * factor);
}

void RowToInt8(const float* row, float factor, std::uint8_t* codes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float scaled = std::fmin(std::fmax(row[i] * factor, -127.0F), 127.0F);
    codes[i] = static_cast<std::uint8_t>(static_cast<int>(std::nearbyint(scaled)) + 128);
  }
}

void RowToInt4(const float* row, float factor, std::uint8_t* codes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float scaled = row[i] * factor;
    int steps = 0;
    for (const float border : kInt4Borders) steps += std::fabs(scaled) >= border ? 1 : 0;
    codes[i] = static_cast<std::uint8_t>(std::signbit(scaled) ? 7 - steps : 8 + steps);
  }
}

constexpr std::size_t kLanes = 8;

double SumOfLanes(const double (&lanes)[kLanes]) {
  double four[4];
  for (std::size_t i = 0; i < 4; ++i) four[i] = lanes[i] + lanes[i + 4];
  return (four[0] + four[2]) + (four[1] + four[3]);
}

double SumOfSquares(const float* row, std::size_t count) {
  double lanes[kLanes] = {};
  for (std::size_t i = 0; i < count; ++i) {
    lanes[i % kLanes] += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  }
  return SumOfLanes(lanes);
}

float FitInt4(const float* row, const std::uint8_t* codes, std::size_t count) {
  double lanes[kLanes] = {};
  int square = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const int level = int{kInt4Levels[codes[i]]};
    lanes[i % kLanes] += static_cast<double>(row[i]) * static_cast<double>(level);
    square += level * level;
  }
  return static_cast<float>(SumOfLanes(lanes) / static_cast<double>(square));
}

using Quad = float __attribute__((vector_size(16)));

Quad LoadQuad(const float* p) {
  Quad quad;
  std::memcpy(&quad, p, sizeof(quad));
  return quad;
}

void StoreQuad(float* p, Quad quad) { std::memcpy(p, &quad, sizeof(quad)); }

// The stages of distance 1 and 2, and the scale.
Quad RotateQuad(Quad x, Quad factor) {
  const Quad pairs = __builtin_shufflevector(x, x, 1, 0, 3, 2);
  const Quad first = pairs + x * Quad{1, -1, 1, -1};
  const Quad halves = __builtin_shufflevector(first, first, 2, 3, 0, 1);
  return (halves + first * Quad{1, 1, -1, -1}) * factor;
}

void Rotate(float* row, std::size_t count, std::size_t block) {
  const float factor = 1.0F / std::sqrt(static_cast<float>(block));
  const Quad factors = {factor, factor, factor, factor};
  for (std::size_t i = 0; i < count; i += 4) {
    StoreQuad(row + i, RotateQuad(LoadQuad(row + i), factors));
  }
  for (std::size_t distance = 4; distance < block; distance *= 2) {
    for (std::size_t start = 0; start < count; start += 2 * distance) {
      float* const low = row + start;
      float* const high = low + distance;
      for (std::size_t i = 0; i < distance; i += 4) {
        const Quad a = LoadQuad(low + i);
        const Quad b = LoadQuad(high + i);
        StoreQuad(low + i, a + b);
        StoreQuad(high + i, a - b);
      }
    }
  }
}

constexpr RowQuantization kPortable = {SanitizeRow, MaxAbsRow,    RowToE4m3, RowToE5m2, RowToInt8,
                                       RowToInt4,   SumOfSquares, FitInt4,   Rotate};

#if defined(__x86_64__)
constexpr RowQuantization kAvx2 = {avx2::SanitizeRow,  avx2::MaxAbsRow, avx2::RowToE4m3,
                                   avx2::RowToE5m2,    avx2::RowToInt8, avx2::RowToInt4,
                                   avx2::SumOfSquares, avx2::FitInt4,   avx2::Rotate};
#endif

}  // namespace

const RowQuantization& RowQuantizationFor([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx2) return kAvx2;
#endif
  return kPortable;
}

const RowQuantization& HostRowQuantization() {
  static const RowQuantization& quantization = RowQuantizationFor(BestIsa(HostCpu()));
  return quantization;
}

}  // namespace swiftkv
