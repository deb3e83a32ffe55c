// SPDX-License-Identifier: Apache-2.0
// Quantises rows sixteen numbers at a time with AVX2.
#include "formats/row_quantization_avx2.h"

#if defined(__AVX2__)

#include <immintrin.h>

#include "base/fp8.h"
#include "formats/row_quantization.h"

namespace swiftkv::avx2 {
namespace {

// Packs 16 numbers of 0 to 255, in two registers, to bytes.
inline void StoreBytes(__m256i low, __m256i high, std::uint8_t* to) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xD8);
  const __m128i bytes =
      _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}

// Calls code(values) for eight scaled numbers at a time.
template <class Code>
inline void ForRow(const float* row, float factor, std::uint8_t* codes, std::size_t count,
                   const Code& code) {
  const __m256 scale = _mm256_set1_ps(factor);
  for (std::size_t i = 0; i < count; i += 16) {
    const __m256 low = _mm256_mul_ps(_mm256_loadu_ps(row + i), scale);
    const __m256 high = _mm256_mul_ps(_mm256_loadu_ps(row + i + 8), scale);
    StoreBytes(code(low), code(high), codes + i);
  }
}

template <class Format>
inline __m256i Fp8Codes(__m256 values) {
  const __m256i bits = _mm256_castps_si256(values);
  const __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 24), _mm256_set1_epi32(0x80));
  const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF));
  const __m256i odd =
      _mm256_and_si256(_mm256_srli_epi32(magnitude, Format::kShift), _mm256_set1_epi32(1));
  const __m256i half = _mm256_set1_epi32((1 << (Format::kShift - 1)) - 1);
  __m256i code =
      _mm256_srli_epi32(_mm256_add_epi32(magnitude, _mm256_add_epi32(half, odd)), Format::kShift);
  code = _mm256_sub_epi32(code, _mm256_set1_epi32(Format::kRebias));
  code = _mm256_min_epi32(code, _mm256_set1_epi32(Format::kLargestCode));
  const __m256i above_half =
      _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(Format::kHalfSmallest));
  const __m256i small = _mm256_and_si256(above_half, _mm256_set1_epi32(1 << Format::kMantissaBits));
  const __m256i is_small =
      _mm256_cmpgt_epi32(_mm256_set1_epi32(Format::kSmallestNormal), magnitude);
  code = _mm256_blendv_epi8(code, small, is_small);
  const __m256i is_number = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_ORD_Q));
  return _mm256_and_si256(_mm256_or_si256(code, sign), is_number);
}

}  // namespace

void SanitizeRow(const float* from, float* to, std::size_t count) {
  const __m256 limit = _mm256_set1_ps(kLargestInput);
  const __m256 least = _mm256_set1_ps(-kLargestInput);
  for (std::size_t i = 0; i < count; i += 8) {
    const __m256 values = _mm256_loadu_ps(from + i);
    const __m256 numbers = _mm256_and_ps(values, _mm256_cmp_ps(values, values, _CMP_ORD_Q));
    _mm256_storeu_ps(to + i, _mm256_min_ps(_mm256_max_ps(numbers, least), limit));
  }
}

float MaxAbsRow(const float* row, std::size_t count) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  __m256 max = _mm256_setzero_ps();
  for (std::size_t i = 0; i < count; i += 8) {
    max = _mm256_max_ps(max, _mm256_andnot_ps(sign, _mm256_loadu_ps(row + i)));
  }
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(max), _mm256_extractf128_ps(max, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

void RowToE4m3(const float* row, float factor, std::uint8_t* codes, std::size_t count) {
  ForRow(row, factor, codes, count, Fp8Codes<Fp8E4m3>);
}

void RowToE5m2(const float* row, float factor, std::uint8_t* codes, std::size_t count) {
  ForRow(row, factor, codes, count, Fp8Codes<Fp8E5m2>);
}

void RowToInt8(const float* row, float factor, std::uint8_t* codes, std::size_t count) {
  const __m256 largest = _mm256_set1_ps(127.0F);
  const __m256 least = _mm256_set1_ps(-127.0F);
  const __m256i bias = _mm256_set1_epi32(128);
  ForRow(row, factor, codes, count, [&](__m256 values) {
    const __m256 cut = _mm256_min_ps(_mm256_max_ps(values, least), largest);
    return _mm256_add_epi32(_mm256_cvtps_epi32(cut), bias);
  });
}

void RowToInt4(const float* row, float factor, std::uint8_t* codes, std::size_t count) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  ForRow(row, factor, codes, count, [&](__m256 values) {
    const __m256 magnitude = _mm256_andnot_ps(sign, values);
    __m256i steps = _mm256_setzero_si256();
    for (const float border : kInt4Borders) {
      const __m256 beyond = _mm256_cmp_ps(magnitude, _mm256_set1_ps(border), _CMP_GE_OQ);
      steps = _mm256_sub_epi32(steps, _mm256_castps_si256(beyond));
    }
    // 8 + steps, and its complement 7 - steps where the number is negative.
    const __m256i above = _mm256_add_epi32(steps, _mm256_set1_epi32(8));
    const __m256i negative = _mm256_srai_epi32(_mm256_castps_si256(values), 31);
    return _mm256_and_si256(_mm256_xor_si256(above, negative), _mm256_set1_epi32(15));
  });
}

}  // namespace swiftkv::avx2

#endif
