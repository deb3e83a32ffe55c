// SPDX-License-Identifier: Apache-2.0
// Emulates a unit of matrix registers in plain code, so that what is computed on AMX is tested on
// every machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/kernels.h"

namespace swiftkv {

// One register: 16 rows of 64 bytes.
struct EmulatedTile {
  alignas(64) std::uint32_t rows[16][16];
};

// sums += left x right as TDPBF16PS defines it (Intel SDM, volume 2): pairs of bf16 from row i of
// left and row k of right, even and odd products added up by themselves in f32, rounded to nearest
// even; denormals are taken, and come out, as zeros.
void EmulateDotBf16(const EmulatedTile& left, const EmulatedTile& right, EmulatedTile* sums);

// Portable kernels whose tiles are multiplied in emulated registers. Registers belong to the
// thread; using one outside of acquire and release stops the process.
const AttentionKernels* EmulatedAmxKernels();

}  // namespace swiftkv
