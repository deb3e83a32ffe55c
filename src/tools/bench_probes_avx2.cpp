// SPDX-License-Identifier: Apache-2.0
// Implements the probes with AVX2 and FMA. Entered only after a check of the CPU.
#include <immintrin.h>

#include "tools/bench_probes.h"

namespace swiftkv {
namespace {

struct LineSums {
  __m256i low = _mm256_setzero_si256();
  __m256i high = _mm256_setzero_si256();

  void Add(const std::byte* line) {
    const auto* from = reinterpret_cast<const __m256i*>(line);
    low = _mm256_add_epi64(low, _mm256_load_si256(from));
    high = _mm256_add_epi64(high, _mm256_load_si256(from + 1));
  }
  std::uint64_t Total() const {
    alignas(32) std::uint64_t words[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(words), _mm256_add_epi64(low, high));
    return words[0] + words[1] + words[2] + words[3];
  }
};

void Prefetch(const std::byte* line) {
  _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T0);
}

std::uint64_t Read(const std::byte* data, std::size_t bytes) {
  LineSums sums;
  for (std::size_t at = 0; at < bytes; at += 64) {
    Prefetch(data + at + kProbeAheadBytes);
    sums.Add(data + at);
  }
  return sums.Total();
}

std::uint64_t ReadScattered(const ScatteredPieces& list) {
  const std::size_t ahead = list.bytes < kProbeAheadBytes ? kProbeAheadBytes / list.bytes : 1;
  LineSums sums;
  for (std::size_t i = 0; i < list.count; ++i) {
    const std::byte* const piece = list.pieces[i];
    const std::byte* const next = list.pieces[i + ahead < list.count ? i + ahead : list.count - 1];
    for (std::size_t at = 0; at < list.bytes; at += 64) {
      Prefetch(next + at);
      sums.Add(piece + at);
    }
  }
  return sums.Total();
}

// Two units with a latency of 4 or 5 cycles each.
constexpr int kSums = 12;

double Multiply(std::int64_t rounds) {
  const __m256 half = _mm256_set1_ps(0.5F);
  const __m256 one = _mm256_set1_ps(1.0F);
  __m256 sums[kSums];
  for (__m256& sum : sums) sum = one;
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = _mm256_fmadd_ps(sums[i], half, one);
  }
  __m256 total = _mm256_setzero_ps();
  for (const __m256 sum : sums) total = _mm256_add_ps(total, sum);
  volatile float sink = _mm256_cvtss_f32(total);
  (void)sink;
  return 2.0 * 8 * kSums * static_cast<double>(rounds);
}

constexpr MachineProbes kProbes = {"avx2", Read, ReadScattered, Multiply, nullptr, nullptr};

}  // namespace

const MachineProbes* Avx2Probes() { return &kProbes; }

}  // namespace swiftkv
