// SPDX-License-Identifier: Apache-2.0
// Implements the probe of bf16 products in AMX tiles. Entered only after a check of the CPU, and
// after the operating system gave the registers to the process.
//
// Instructions are written out with the memory that they read: GCC 12's own intrinsics name 8 of
// the 64 bytes of a configuration, so that stores to the rest may be dropped.
#include "attention/tile_configuration.h"
#include "tools/bench_probes.h"

namespace swiftkv {
namespace {

// Four sums of 16 x 16, each of two operands of 16 x 32 values: as many as eight tiles allow.
double Multiply(std::int64_t rounds) {
  __asm__ volatile("ldtilecfg %0" : : "m"(kFullTiles));
  __asm__ volatile(
      "tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3\n\t"
      "tilezero %%tmm4\n\ttilezero %%tmm5\n\ttilezero %%tmm6\n\ttilezero %%tmm7" ::);
  for (std::int64_t round = 0; round < rounds; ++round) {
    __asm__ volatile(
        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm5, %%tmm3" ::);
  }
  __asm__ volatile("tilerelease" ::);
  return 4.0 * 2 * 16 * 16 * 32 * static_cast<double>(rounds);
}

}  // namespace

double (*AmxBf16Multiply())(std::int64_t rounds) { return Multiply; }

}  // namespace swiftkv
