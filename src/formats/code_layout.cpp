// SPDX-License-Identifier: Apache-2.0
// Interleaves codes by channels (K) and by tokens (V).
#include "formats/code_layout.h"

#include "formats/slot_transpose.h"

namespace swiftkv {
namespace {

constexpr std::size_t kQuad = 4;
constexpr std::size_t kHalfPage = kPageTokens / 2;

// Four codes that the dot-product instructions take together.
struct CodeQuad {
  std::uint8_t codes[kQuad];
};

const CodeQuad* Quads(const std::uint8_t* codes) {
  return reinterpret_cast<const CodeQuad*>(codes);
}
CodeQuad* Quads(std::uint8_t* codes) { return reinterpret_cast<CodeQuad*>(codes); }

// The first byte of a slot in a V plane of groups [.., d, 4]; the next channel's is 4 further.
std::uint8_t* TokenColumn(std::uint8_t* plane, std::size_t dim, std::size_t slot) {
  return plane + slot / kQuad * dim * kQuad + slot % kQuad;
}
const std::uint8_t* TokenColumn(const std::uint8_t* plane, std::size_t dim, std::size_t slot) {
  return plane + slot / kQuad * dim * kQuad + slot % kQuad;
}

void ScatterQuadKeys(const std::uint8_t* rows, std::size_t dim, SlotRange slots,
                     std::uint8_t* plane) {
  ScatterSlots(Quads(rows), dim / kQuad, dim / kQuad, slots, Quads(plane));
}

void GatherQuadKeys(const std::uint8_t* plane, std::size_t dim, SlotRange slots,
                    std::uint8_t* rows) {
  GatherSlots(Quads(plane), dim / kQuad, slots, Quads(rows), dim / kQuad);
}

void ScatterQuadValues(const std::uint8_t* rows, std::size_t dim, SlotRange slots,
                       std::uint8_t* plane) {
  for (int t = 0; t < slots.count; ++t) {
    std::uint8_t* const column =
        TokenColumn(plane, dim, static_cast<std::size_t>(slots.first_slot + t));
    const std::uint8_t* const row = rows + static_cast<std::size_t>(t) * dim;
    for (std::size_t c = 0; c < dim; ++c) column[c * kQuad] = row[c];
  }
}

void GatherQuadValues(const std::uint8_t* plane, std::size_t dim, SlotRange slots,
                      std::uint8_t* rows) {
  for (int t = 0; t < slots.count; ++t) {
    const std::uint8_t* const column =
        TokenColumn(plane, dim, static_cast<std::size_t>(slots.first_slot + t));
    std::uint8_t* const row = rows + static_cast<std::size_t>(t) * dim;
    for (std::size_t c = 0; c < dim; ++c) row[c] = column[c * kQuad];
  }
}

void ScatterNibbleKeys(const std::uint8_t* rows, std::size_t dim, SlotRange slots,
                       std::uint8_t* plane) {
  const std::size_t half = dim / 2;
  std::uint8_t packed[kPageTokens * kMostChannels / 2];
  for (std::size_t t = 0; t < static_cast<std::size_t>(slots.count); ++t) {
    const std::uint8_t* const row = rows + t * dim;
    for (std::size_t c = 0; c < half; ++c) {
      packed[t * half + c] = static_cast<std::uint8_t>(row[c] | (row[c + half] << 4));
    }
  }
  ScatterSlots(Quads(packed), half / kQuad, half / kQuad, slots, Quads(plane));
}

void GatherNibbleKeys(const std::uint8_t* plane, std::size_t dim, SlotRange slots,
                      std::uint8_t* rows) {
  const std::size_t half = dim / 2;
  std::uint8_t packed[kPageTokens * kMostChannels / 2];
  GatherSlots(Quads(plane), half / kQuad, slots, Quads(packed), half / kQuad);
  for (std::size_t t = 0; t < static_cast<std::size_t>(slots.count); ++t) {
    std::uint8_t* const row = rows + t * dim;
    for (std::size_t c = 0; c < half; ++c) {
      row[c] = packed[t * half + c] & 15U;
      row[c + half] = packed[t * half + c] >> 4;
    }
  }
}

// Writes all slots: a byte, and four neighbouring bytes, are known at once.
void PackNibbleValues(const std::uint8_t* rows, std::size_t dim, std::uint8_t* plane) {
  for (std::size_t first = 0; first < kHalfPage; first += kQuad) {
    const std::uint8_t* const low = rows + first * dim;
    const std::uint8_t* const high = low + kHalfPage * dim;
    std::uint8_t* const group = plane + first * dim;
    for (std::size_t c = 0; c < dim; ++c) {
      for (std::size_t i = 0; i < kQuad; ++i) {
        group[c * kQuad + i] =
            static_cast<std::uint8_t>(low[i * dim + c] | (high[i * dim + c] << 4));
      }
    }
  }
}

void ScatterNibbleValues(const std::uint8_t* rows, std::size_t dim, SlotRange slots,
                         std::uint8_t* plane) {
  if (slots.count == kPageTokens) {
    PackNibbleValues(rows, dim, plane);
    return;
  }
  for (int t = 0; t < slots.count; ++t) {
    const auto slot = static_cast<std::size_t>(slots.first_slot + t);
    const unsigned shift = slot < kHalfPage ? 0 : 4;
    const unsigned kept = 0xF0U >> shift;  // the nibble of the token that shares the byte
    std::uint8_t* const column = TokenColumn(plane, dim, slot % kHalfPage);
    const std::uint8_t* const row = rows + static_cast<std::size_t>(t) * dim;
    for (std::size_t c = 0; c < dim; ++c) {
      std::uint8_t& byte = column[c * kQuad];
      byte = static_cast<std::uint8_t>((byte & kept) | (static_cast<unsigned>(row[c]) << shift));
    }
  }
}

void GatherNibbleValues(const std::uint8_t* plane, std::size_t dim, SlotRange slots,
                        std::uint8_t* rows) {
  for (int t = 0; t < slots.count; ++t) {
    const auto slot = static_cast<std::size_t>(slots.first_slot + t);
    const unsigned shift = slot < kHalfPage ? 0 : 4;
    const std::uint8_t* const column = TokenColumn(plane, dim, slot % kHalfPage);
    std::uint8_t* const row = rows + static_cast<std::size_t>(t) * dim;
    for (std::size_t c = 0; c < dim; ++c) {
      row[c] = static_cast<std::uint8_t>((column[c * kQuad] >> shift) & 15U);
    }
  }
}

}  // namespace

constinit const CodeLayout kQuadCodes = {8, ScatterQuadKeys, ScatterQuadValues, GatherQuadKeys,
                                         GatherQuadValues};
constinit const CodeLayout kNibbleCodes = {4, ScatterNibbleKeys, ScatterNibbleValues,
                                           GatherNibbleKeys, GatherNibbleValues};

}  // namespace swiftkv
