// SPDX-License-Identifier: Apache-2.0
// Quantises rows sixteen numbers at a time with AVX2.
#include "formats/row_quantization_avx2.h"

#if defined(__AVX2__)

#include <immintrin.h>

#include <cstring>

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

// Brings 32 bytes that two packs of four registers left interleaved into their order.
inline __m256i InOrder(__m256i packed) {
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// The codes of 32 numbers.
inline __m256i Int4Codes(const float* row, float factor) {
  const __m256 twice = _mm256_set1_ps(2 * factor);
  const __m256 sign = _mm256_set1_ps(-0.0F);
  const __m256 most = _mm256_set1_ps(255.0F);
  __m256i numbers[4];
  __m256i magnitudes[4];
  for (std::size_t k = 0; k < 4; ++k) {
    const __m256 values = _mm256_mul_ps(_mm256_loadu_ps(row + 8 * k), twice);
    numbers[k] = _mm256_castps_si256(values);
    magnitudes[k] = _mm256_cvttps_epi32(_mm256_min_ps(_mm256_andnot_ps(sign, values), most));
  }
  const __m256i bytes =
      InOrder(_mm256_packus_epi16(_mm256_packus_epi32(magnitudes[0], magnitudes[1]),
                                  _mm256_packus_epi32(magnitudes[2], magnitudes[3])));
  const __m256i signs = InOrder(_mm256_packs_epi16(_mm256_packs_epi32(numbers[0], numbers[1]),
                                                   _mm256_packs_epi32(numbers[2], numbers[3])));
  __m256i above = _mm256_set1_epi8(8);
  for (const float border : kInt4Borders) {
    const __m256i reached = _mm256_set1_epi8(static_cast<char>(static_cast<int>(2 * border)));
    above = _mm256_sub_epi8(above, _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, reached), bytes));
  }
  // 8 + steps, and its complement 7 - steps where the number is negative.
  const __m256i negative = _mm256_cmpgt_epi8(_mm256_setzero_si256(), signs);
  return _mm256_and_si256(_mm256_xor_si256(above, negative), _mm256_set1_epi8(15));
}

inline double SumOfLanes(__m256d low, __m256d high) {
  const __m256d four = _mm256_add_pd(low, high);
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
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

// The code of a number follows from how many borders its magnitude reaches. Twice a border is a
// whole number, so the magnitudes may be doubled and cut to bytes first.
void RowToInt4(const float* row, float factor, std::uint8_t* codes, std::size_t count) {
  constexpr std::size_t kStep = 32;
  for (std::size_t i = 0; i + kStep <= count; i += kStep) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + i), Int4Codes(row + i, factor));
  }
  if (count % kStep == 0) return;
  const std::size_t half = count - kStep / 2;
  float padded[kStep] = {};
  std::uint8_t padded_codes[kStep];
  std::memcpy(padded, row + half, sizeof(padded) / 2);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(padded_codes), Int4Codes(padded, factor));
  std::memcpy(codes + half, padded_codes, kStep / 2);
}

double SumOfSquares(const float* row, std::size_t count) {
  __m256d low = _mm256_setzero_pd();
  __m256d high = _mm256_setzero_pd();
  for (std::size_t i = 0; i < count; i += 8) {
    const __m256d a = _mm256_cvtps_pd(_mm_loadu_ps(row + i));
    const __m256d b = _mm256_cvtps_pd(_mm_loadu_ps(row + i + 4));
    low = _mm256_fmadd_pd(a, a, low);
    high = _mm256_fmadd_pd(b, b, high);
  }
  return SumOfLanes(low, high);
}

float FitInt4(const float* row, const std::uint8_t* codes, std::size_t count) {
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kInt4Levels));
  __m256d low = _mm256_setzero_pd();
  __m256d high = _mm256_setzero_pd();
  __m256i squares = _mm256_setzero_si256();
  for (std::size_t i = 0; i < count; i += 16) {
    const __m128i code = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i));
    const __m256i levels = _mm256_cvtepi8_epi16(_mm_shuffle_epi8(table, code));
    squares = _mm256_add_epi32(squares, _mm256_madd_epi16(levels, levels));
    for (int half = 0; half < 2; ++half) {
      const __m128i eight =
          half == 0 ? _mm256_castsi256_si128(levels) : _mm256_extracti128_si256(levels, 1);
      const float* const values = row + i + 8 * half;
      low = _mm256_fmadd_pd(_mm256_cvtps_pd(_mm_loadu_ps(values)),
                            _mm256_cvtepi32_pd(_mm_cvtepi16_epi32(eight)), low);
      high =
          _mm256_fmadd_pd(_mm256_cvtps_pd(_mm_loadu_ps(values + 4)),
                          _mm256_cvtepi32_pd(_mm_cvtepi16_epi32(_mm_srli_si128(eight, 8))), high);
    }
  }
  __m128i square =
      _mm_add_epi32(_mm256_castsi256_si128(squares), _mm256_extracti128_si256(squares, 1));
  square = _mm_add_epi32(square, _mm_srli_si128(square, 8));
  square = _mm_add_epi32(square, _mm_srli_si128(square, 4));
  return static_cast<float>(SumOfLanes(low, high) / static_cast<double>(_mm_cvtsi128_si32(square)));
}

void Rotate(float* row, std::size_t count, std::size_t block) {
  const __m128 root = _mm_sqrt_ss(_mm_set_ss(static_cast<float>(block)));
  const __m256 factor = _mm256_set1_ps(1.0F / _mm_cvtss_f32(root));
  const __m256 ones = _mm256_setr_ps(0.0F, -0.0F, 0.0F, -0.0F, 0.0F, -0.0F, 0.0F, -0.0F);
  const __m256 twos = _mm256_setr_ps(0.0F, 0.0F, -0.0F, -0.0F, 0.0F, 0.0F, -0.0F, -0.0F);
  const __m256 fours = _mm256_setr_ps(0.0F, 0.0F, 0.0F, 0.0F, -0.0F, -0.0F, -0.0F, -0.0F);
  for (std::size_t i = 0; i < count; i += 8) {  // the stages of distance 1, 2 and 4
    __m256 x = _mm256_loadu_ps(row + i);
    x = _mm256_add_ps(_mm256_permute_ps(x, 0xB1), _mm256_xor_ps(x, ones));
    x = _mm256_add_ps(_mm256_permute_ps(x, 0x4E), _mm256_xor_ps(x, twos));
    x = _mm256_mul_ps(x, factor);
    x = _mm256_add_ps(_mm256_permute2f128_ps(x, x, 1), _mm256_xor_ps(x, fours));
    _mm256_storeu_ps(row + i, x);
  }
  for (std::size_t distance = 8; distance < block; distance *= 2) {
    for (std::size_t start = 0; start < count; start += 2 * distance) {
      float* const low = row + start;
      float* const high = low + distance;
      for (std::size_t i = 0; i < distance; i += 8) {
        const __m256 a = _mm256_loadu_ps(low + i);
        const __m256 b = _mm256_loadu_ps(high + i);
        _mm256_storeu_ps(low + i, _mm256_add_ps(a, b));
        _mm256_storeu_ps(high + i, _mm256_sub_ps(a, b));
      }
    }
  }
}

}  // namespace swiftkv::avx2

#endif
