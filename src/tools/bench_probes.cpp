// SPDX-License-Identifier: Apache-2.0
// Implements the portable probes and picks a table for a machine.
#include "tools/bench_probes.h"

#include <algorithm>

#include "attention/tile_permission.h"

namespace swiftkv {
namespace {

constexpr int kLineWords = 8;

struct LineSums {
  std::uint64_t words[kLineWords] = {};

  void Add(const std::byte* line) {
    const auto* from = reinterpret_cast<const std::uint64_t*>(line);
    for (int i = 0; i < kLineWords; ++i) words[i] += from[i];
  }
  std::uint64_t Total() const {
    std::uint64_t total = 0;
    for (const std::uint64_t word : words) total += word;
    return total;
  }
};

std::uint64_t Read(const std::byte* data, std::size_t bytes) {
  LineSums sums;
  for (std::size_t at = 0; at < bytes; at += 64) {
    __builtin_prefetch(data + at + kProbeAheadBytes);
    sums.Add(data + at);
  }
  return sums.Total();
}

std::uint64_t ReadScattered(const ScatteredPieces& list) {
  const std::size_t ahead = std::max<std::size_t>(1, kProbeAheadBytes / list.bytes);
  LineSums sums;
  for (std::size_t i = 0; i < list.count; ++i) {
    const std::byte* const piece = list.pieces[i];
    const std::byte* const next = list.pieces[std::min(i + ahead, list.count - 1)];
    for (std::size_t at = 0; at < list.bytes; at += 64) {
      __builtin_prefetch(next + at);
      sums.Add(piece + at);
    }
  }
  return sums.Total();
}

// As many sums as the baseline's registers hold beside the operands.
constexpr int kFloats = 32;

double Multiply(std::int64_t rounds) {
  float sums[kFloats];
  for (int i = 0; i < kFloats; ++i) sums[i] = static_cast<float>(i);
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (float& sum : sums) sum = sum * 0.5F + 1.0F;
  }
  volatile float sink = 0;
  for (const float sum : sums) sink = sink + sum;
  return 2.0 * kFloats * static_cast<double>(rounds);
}

constexpr MachineProbes kPortable = {"portable", Read, ReadScattered, Multiply, nullptr, nullptr};

}  // namespace

const MachineProbes* PortableProbes() { return &kPortable; }

#if !defined(__x86_64__)
const MachineProbes* Avx2Probes() { return nullptr; }
const MachineProbes* Avx512Probes() { return nullptr; }
double (*Avx512Bf16Multiply())(std::int64_t rounds) { return nullptr; }
double (*AmxBf16Multiply())(std::int64_t rounds) { return nullptr; }
#endif

MachineProbes BestProbes(const CpuFeatures& cpu) {
  if (cpu.avx512 && Avx512Probes() != nullptr) {
    MachineProbes probes = *Avx512Probes();
    if (cpu.avx512_bf16) probes.multiply_bf16 = Avx512Bf16Multiply();
    if (cpu.amx_bf16 && RequestTilePermission().ok()) probes.multiply_tiles = AmxBf16Multiply();
    return probes;
  }
  if (cpu.avx2 && Avx2Probes() != nullptr) return *Avx2Probes();
  return kPortable;
}

}  // namespace swiftkv
