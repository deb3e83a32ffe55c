// SPDX-License-Identifier: Apache-2.0
// Converts rows eight numbers at a time with AVX2 and F16C.
#include "formats/row_conversion_avx2.h"

#if defined(__AVX2__) && defined(__F16C__)

#include <immintrin.h>

#include "base/half.h"

namespace swiftkv::avx2 {
namespace {

constexpr std::size_t kLanes = 8;

// Returns `values` with NaN as 0 and everything within [-limit, limit].
inline __m256 Saturate(__m256 values, float limit) {
  const __m256 ordered = _mm256_cmp_ps(values, values, _CMP_ORD_Q);
  const __m256 numbers = _mm256_and_ps(values, ordered);
  return _mm256_max_ps(_mm256_min_ps(numbers, _mm256_set1_ps(limit)), _mm256_set1_ps(-limit));
}

}  // namespace

void FloatToHalfRow(const float* from, std::uint16_t* to, std::size_t count) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m256 values = Saturate(_mm256_loadu_ps(from + i), kMaxHalf);
    const __m128i halves = _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
  for (; i < count; ++i) to[i] = FloatToHalfSaturated(from[i]);
}

void HalfToFloatRow(const std::uint16_t* from, float* to, std::size_t count) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
  for (; i < count; ++i) to[i] = HalfToFloat(from[i]);
}

void FloatToBf16Row(const float* from, std::uint16_t* to, std::size_t count) {
  const __m256i one = _mm256_set1_epi32(1);
  const __m256i below_half = _mm256_set1_epi32(0x7FFF);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m256i bits = _mm256_castps_si256(Saturate(_mm256_loadu_ps(from + i), kMaxBf16));
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(below_half, odd));
    const __m256i upper = _mm256_srli_epi32(rounded, 16);
    const __m128i packed =
        _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), packed);
  }
  for (; i < count; ++i) to[i] = FloatToBf16Saturated(from[i]);
}

void Bf16ToFloatRow(const std::uint16_t* from, float* to, std::size_t count) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(packed), 16);
    _mm256_storeu_ps(to + i, _mm256_castsi256_ps(bits));
  }
  for (; i < count; ++i) to[i] = Bf16ToFloat(from[i]);
}

}  // namespace swiftkv::avx2

#endif
