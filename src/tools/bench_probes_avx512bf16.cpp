// SPDX-License-Identifier: Apache-2.0
// Implements the probe of bf16 products with AVX-512 BF16. Entered only after a check of the CPU.
#include <immintrin.h>

#include "tools/bench_probes.h"

namespace swiftkv {
namespace {

constexpr int kSums = 16;

// An instruction multiplies 32 pairs and adds as many products.
double Multiply(std::int64_t rounds) {
  const auto zeros = reinterpret_cast<__m512bh>(_mm512_setzero_si512());
  __m512 sums[kSums];
  for (__m512& sum : sums) sum = _mm512_set1_ps(1.0F);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], zeros, zeros);
  }
  __m512 total = _mm512_setzero_ps();
  for (const __m512 sum : sums) total = _mm512_add_ps(total, sum);
  volatile float sink = _mm512_cvtss_f32(total);
  (void)sink;
  return 2.0 * 32 * kSums * static_cast<double>(rounds);
}

}  // namespace

double (*Avx512Bf16Multiply())(std::int64_t rounds) { return Multiply; }

}  // namespace swiftkv
