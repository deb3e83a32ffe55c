// SPDX-License-Identifier: Apache-2.0
// Implements the probes with AVX-512. Entered only after a check of the CPU.
#include <immintrin.h>

#include "tools/bench_probes.h"

namespace swiftkv {
namespace {

void Prefetch(const std::byte* line) {
  _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T0);
}

__m512i Load(const std::byte* line) { return _mm512_load_si512(line); }

// Sums may wrap round.
std::uint64_t SumOfLanes(__m512i sum) {
  std::uint64_t lanes[8];
  _mm512_storeu_si512(lanes, sum);
  std::uint64_t total = 0;
  for (const std::uint64_t lane : lanes) total += lane;
  return total;
}

std::uint64_t Read(const std::byte* data, std::size_t bytes) {
  __m512i sum = _mm512_setzero_si512();
  for (std::size_t at = 0; at < bytes; at += 64) {
    Prefetch(data + at + kProbeAheadBytes);
    sum = _mm512_add_epi64(sum, Load(data + at));
  }
  return SumOfLanes(sum);
}

std::uint64_t ReadScattered(const ScatteredPieces& list) {
  const std::size_t ahead = list.bytes < kProbeAheadBytes ? kProbeAheadBytes / list.bytes : 1;
  __m512i sum = _mm512_setzero_si512();
  for (std::size_t i = 0; i < list.count; ++i) {
    const std::byte* const piece = list.pieces[i];
    const std::byte* const next = list.pieces[i + ahead < list.count ? i + ahead : list.count - 1];
    for (std::size_t at = 0; at < list.bytes; at += 64) {
      Prefetch(next + at);
      sum = _mm512_add_epi64(sum, Load(piece + at));
    }
  }
  return SumOfLanes(sum);
}

// Two units with a latency of 4 cycles each, and some to spare.
constexpr int kSums = 16;

double Multiply(std::int64_t rounds) {
  const __m512 half = _mm512_set1_ps(0.5F);
  const __m512 one = _mm512_set1_ps(1.0F);
  __m512 sums[kSums];
  for (__m512& sum : sums) sum = one;
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_fmadd_ps(sums[i], half, one);
  }
  __m512 total = _mm512_setzero_ps();
  for (const __m512 sum : sums) total = _mm512_add_ps(total, sum);
  volatile float sink = _mm512_cvtss_f32(total);
  (void)sink;
  return 2.0 * 16 * kSums * static_cast<double>(rounds);
}

constexpr MachineProbes kProbes = {"avx512", Read, ReadScattered, Multiply, nullptr, nullptr};

}  // namespace

const MachineProbes* Avx512Probes() { return &kProbes; }

}  // namespace swiftkv
