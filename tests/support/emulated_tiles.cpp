// SPDX-License-Identifier: Apache-2.0
// Follows the definitions of the instructions, one number at a time.
#include "support/emulated_tiles.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "attention/tile_products.h"
#include "base/check.h"
#include "base/half.h"

namespace swiftkv {
namespace {

struct Registers {
  EmulatedTile tiles[8];
  bool configured = false;
};

Registers& ThreadRegisters() {
  static thread_local Registers registers;
  return registers;
}

EmulatedTile& Register(int index) {
  Registers& registers = ThreadRegisters();
  SKV_CHECK(registers.configured, "a tile is used before it is configured");
  return registers.tiles[index];
}

// Denormals are zeros; the sign stays.
float Flush(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
}

std::uint32_t JoinPair(std::uint16_t even, std::uint16_t odd) {
  return even | static_cast<std::uint32_t>(odd) << 16;
}

struct EmulatedUnit {
  static void Configure() {
    Registers& registers = ThreadRegisters();
    SKV_CHECK(!registers.configured, "tiles are configured twice");
    registers.configured = true;
    std::memset(registers.tiles, 0, sizeof(registers.tiles));
  }
  static void Restore() { ThreadRegisters().configured = false; }

  template <int kTile>
  static void Zero() {
    std::memset(Register(kTile).rows, 0, sizeof(EmulatedTile));
  }
  template <int kTile>
  static void Load(const void* p, std::size_t stride) {
    for (int row = 0; row < 16; ++row) {
      std::memcpy(Register(kTile).rows[row],
                  static_cast<const std::byte*>(p) + static_cast<std::size_t>(row) * stride, 64);
    }
  }
  template <int kTile>
  static void Store(void* p, std::size_t stride) {
    for (int row = 0; row < 16; ++row) {
      std::memcpy(static_cast<std::byte*>(p) + static_cast<std::size_t>(row) * stride,
                  Register(kTile).rows[row], 64);
    }
  }
  template <int kSums, int kLeft, int kRight>
  static void Dot() {
    EmulateDotBf16(Register(kLeft), Register(kRight), &Register(kSums));
  }

  static void SplitPairs(const float* even, const float* odd, std::uint32_t* high,
                         std::uint32_t* low) {
    for (int i = 0; i < 16; ++i) {
      const std::uint16_t even_high = FloatToBf16(even[i]);
      const std::uint16_t odd_high = FloatToBf16(odd[i]);
      high[i] = JoinPair(even_high, odd_high);
      if (low == nullptr) continue;
      low[i] = JoinPair(FloatToBf16(even[i] - Bf16ToFloat(even_high)),
                        FloatToBf16(odd[i] - Bf16ToFloat(odd_high)));
    }
  }
  static void SplitColumns(const TileColumns& columns, std::uint16_t* high, std::uint16_t* low) {
    for (int r = 0; r < columns.rows; ++r) {
      for (int i = 0; i < 16; ++i) {
        float x = 0;
        if (i < columns.count) {
          x = columns.from[r * columns.from_stride + i] *
              (columns.scales != nullptr ? HalfToFloat(columns.scales[i]) : 1.0F);
        }
        const int at = r * columns.to_stride + i;
        high[at] = FloatToBf16(x);
        if (low != nullptr) low[at] = FloatToBf16(x - Bf16ToFloat(high[at]));
      }
    }
  }
  static void Scale(float* rows, int vectors, const std::uint16_t* scales) {
    for (int v = 0; v < vectors; ++v) {
      for (int i = 0; i < 16; ++i) rows[v * kBatchTokens + i] *= HalfToFloat(scales[i]);
    }
  }
  static void Prefetch(const std::byte*) {}
};

constexpr TileKernels kTiles = MakeTileKernels<EmulatedUnit>();

}  // namespace

void EmulateDotBf16(const EmulatedTile& left, const EmulatedTile& right, EmulatedTile* sums) {
  const auto even = [](std::uint32_t pair) { return Flush(std::bit_cast<float>(pair << 16)); };
  const auto odd = [](std::uint32_t pair) {
    return Flush(std::bit_cast<float>(pair & 0xFFFF0000U));
  };
  float right_even[16][16];
  float right_odd[16][16];
  for (int k = 0; k < 16; ++k) {
    for (int j = 0; j < 16; ++j) {
      right_even[k][j] = even(right.rows[k][j]);
      right_odd[k][j] = odd(right.rows[k][j]);
    }
  }
  for (int i = 0; i < 16; ++i) {
    float even_sums[16] = {};
    float odd_sums[16] = {};
    // A product of two bf16 is exact in f32, so that adding it rounds once, as the unit does.
    for (int k = 0; k < 16; ++k) {
      const float a = even(left.rows[i][k]);
      const float b = odd(left.rows[i][k]);
      for (int j = 0; j < 16; ++j) even_sums[j] = Flush(even_sums[j] + a * right_even[k][j]);
      for (int j = 0; j < 16; ++j) odd_sums[j] = Flush(odd_sums[j] + b * right_odd[k][j]);
    }
    for (int j = 0; j < 16; ++j) {
      const float old = Flush(std::bit_cast<float>(sums->rows[i][j]));
      const float sum = Flush(even_sums[j] + odd_sums[j]);
      sums->rows[i][j] = std::bit_cast<std::uint32_t>(Flush(old + sum));
    }
  }
}

const AttentionKernels* EmulatedAmxKernels() {
  static const AttentionKernels kKernels = [] {
    AttentionKernels kernels = *PortableKernels();
    kernels.isa = "amx emulated";
    kernels.tiles = &kTiles;
    return kernels;
  }();
  return &kKernels;
}

}  // namespace swiftkv
