// SPDX-License-Identifier: Apache-2.0
// Describes the AMX tile registers as whole tiles of 16 rows of 64 bytes. Data only: files for any
// instruction set may share it.
#pragma once

#include <cstdint>

namespace swiftkv {

// What ldtilecfg reads (Intel SDM, volume 1, 18.3).
struct alignas(64) TileConfiguration {
  std::uint8_t palette;
  std::uint8_t start_row;
  std::uint8_t reserved[14];
  std::uint16_t bytes_per_row[16];
  std::uint8_t rows[16];
};
static_assert(sizeof(TileConfiguration) == 64);

constexpr TileConfiguration FullTiles() {
  TileConfiguration tiles{};
  tiles.palette = 1;
  for (int t = 0; t < 8; ++t) {
    tiles.bytes_per_row[t] = 64;
    tiles.rows[t] = 16;
  }
  return tiles;
}

inline constexpr TileConfiguration kFullTiles = FullTiles();

}  // namespace swiftkv
