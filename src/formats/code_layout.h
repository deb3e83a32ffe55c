// SPDX-License-Identifier: Apache-2.0
// Moves rows of 8-bit and 4-bit codes in and out of planes (docs/page_format.md, "Planes").
//
// A row is `dim` codes, one a byte; dim is a multiple of 16. Rows of a SlotRange lie back to back,
// [slots.count][dim].
#pragma once

#include <cstddef>
#include <cstdint>

#include "swiftkv/page_codec.h"

namespace swiftkv {

// How the codes of a page lie.
struct CodeLayout {
  int bits_per_code;
  // Rows into the slots of a plane; the bytes of other slots keep their codes.
  void (*scatter_keys)(const std::uint8_t* rows, std::size_t dim, SlotRange slots,
                       std::uint8_t* plane);
  void (*scatter_values)(const std::uint8_t* rows, std::size_t dim, SlotRange slots,
                         std::uint8_t* plane);
  // Slots of a plane into rows.
  void (*gather_keys)(const std::uint8_t* plane, std::size_t dim, SlotRange slots,
                      std::uint8_t* rows);
  void (*gather_values)(const std::uint8_t* plane, std::size_t dim, SlotRange slots,
                        std::uint8_t* rows);
};

// K [d/4][16][4], V [4][d][4]: what the byte dot-product instructions (VNNI) take as it lies.
extern const CodeLayout kQuadCodes;
// K [d/8][16][4], a byte holding channels c (low nibble) and c + d/2; V [2][d][4], a byte holding
// tokens t (low nibble) and t + 8: one shift and one mask give two operands of VNNI.
extern const CodeLayout kNibbleCodes;

}  // namespace swiftkv
