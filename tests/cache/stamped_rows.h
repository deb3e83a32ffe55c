// SPDX-License-Identifier: Apache-2.0
// Makes rows that tell whose they are: each token's rows follow from its stamp alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/lone_row.h"

namespace swiftkv {

// Which row of which token.
struct RowStamp {
  std::uint32_t token = 0;  // told from those of all other tokens
  int layer = 0;
  int head = 0;
  bool is_key = true;
};

// Writes `size` channels; whole numbers in [-127, 127], exact in every 16-bit format.
inline void StampRow(const RowStamp& stamp, std::size_t size, float* row) {
  const std::uint32_t start =
      stamp.token * 2654435761U + static_cast<std::uint32_t>(stamp.layer) * 40503U +
      static_cast<std::uint32_t>(stamp.head) * 977U + (stamp.is_key ? 17U : 0U);
  for (std::uint32_t channel = 0; channel < size; ++channel) {
    std::uint32_t x = start + channel * 31U;
    x ^= x >> 15;
    row[channel] = static_cast<float>(static_cast<int>(x % 255) - 127);
  }
}

// Replaces a row by what it decodes to after it went through these codecs, one after the other.
inline void SendThrough(std::span<const PageCodec* const> codecs, Plane plane,
                        std::vector<float>* row) {
  bool is_exact = true;
  for (const PageCodec* codec : codecs) is_exact = is_exact && codec->info().bits_per_value >= 16;
  if (is_exact) return;
  LoneRow stored(codecs.front(), plane, static_cast<int>(row->size()));
  stored.Store(*row);
  for (const PageCodec* codec : codecs.subspan(1)) {
    if (codec != stored.codec()) stored = stored.In(codec);
  }
  *row = stored.Load();
}

}  // namespace swiftkv
