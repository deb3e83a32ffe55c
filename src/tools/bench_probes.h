// SPDX-License-Identifier: Apache-2.0
// Lists what a machine is measured with: reading memory, and multiplying registers. One table per
// instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_features.h"

namespace swiftkv {

// Pieces of memory of one size, anywhere. All aligned to 64 bytes.
struct ScatteredPieces {
  const std::byte* const* pieces;  // [count]
  std::size_t count;
  std::size_t bytes;  // of a piece, a multiple of 64
};

struct MachineProbes {
  const char* isa;

  // Adds up 64-byte lines from the first to the last; `bytes` is a multiple of 64. The sum matters
  // to nobody but the compiler.
  std::uint64_t (*read)(const std::byte* data, std::size_t bytes);
  // The same over pieces in their order.
  std::uint64_t (*read_scattered)(const ScatteredPieces& pieces);

  // Multiplies and adds f32 in registers `rounds` times. Returns the floating-point operations that
  // this took.
  double (*multiply)(std::int64_t rounds);
  // The same with this set's products of bf16 pairs, sums in f32; null where it has none.
  double (*multiply_bf16)(std::int64_t rounds);
  // The same with products of bf16 in AMX tiles; null where the process may not use them.
  double (*multiply_tiles)(std::int64_t rounds);
};

// Bytes between what is read and what is fetched meanwhile.
inline constexpr std::size_t kProbeAheadBytes = 4096;

// Each returns null where this build does not have the instruction set. To call a probe the CPU
// must have it too.
const MachineProbes* PortableProbes();
const MachineProbes* Avx2Probes();
const MachineProbes* Avx512Probes();
// Only for processors with the extension; null in builds without it.
double (*Avx512Bf16Multiply())(std::int64_t rounds);
// Only after RequestTilePermission(); null in builds without AMX.
double (*AmxBf16Multiply())(std::int64_t rounds);

// Returns the probes of the largest set that `cpu` runs. Asks the system for tiles where it has
// them.
MachineProbes BestProbes(const CpuFeatures& cpu);

}  // namespace swiftkv
