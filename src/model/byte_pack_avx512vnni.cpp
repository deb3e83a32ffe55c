// SPDX-License-Identifier: Apache-2.0
// Packs activations into bytes with AVX-512, sixteen blocks at a time.
//
// What a block has one of (maximum, factor, sums) is computed for all sixteen in the lanes of a
// register. Magnitudes are compared as integers, among which what is no number is the largest.
#include "model/byte_pack_avx512vnni.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__) && defined(__AVX512VNNI__)

#include <immintrin.h>

#include "model/byte_kernels.h"

namespace swiftkv::avx512vnni {
namespace {

constexpr int kGroup = 16;  // blocks

inline __m512i Magnitudes(const float* values) {
  return _mm512_and_si512(_mm512_loadu_si512(values), _mm512_set1_epi32(0x7FFFFFFF));
}

// The larger of the two halves' magnitudes of a block.
inline __m512i HighestOf(const float* block) {
  return _mm512_max_epi32(Magnitudes(block), Magnitudes(block + 16));
}

// Lane i is the largest of group[i]'s lanes.
inline __m512i HighestOfEach(const __m512i (&group)[kGroup]) {
  __m512i fours[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i* const from = group + 4 * i;
    const __m512i low = _mm512_max_epi32(_mm512_unpacklo_epi32(from[0], from[1]),
                                         _mm512_unpackhi_epi32(from[0], from[1]));
    const __m512i high = _mm512_max_epi32(_mm512_unpacklo_epi32(from[2], from[3]),
                                          _mm512_unpackhi_epi32(from[2], from[3]));
    fours[i] = _mm512_max_epi32(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
  }
  const auto merge = [](__m512i a, __m512i b) {
    return _mm512_max_epi32(_mm512_shuffle_i32x4(a, b, 0x44), _mm512_shuffle_i32x4(a, b, 0xEE));
  };
  const __m512i first = merge(fours[0], fours[1]);
  const __m512i last = merge(fours[2], fours[3]);
  return _mm512_max_epi32(_mm512_shuffle_i32x4(first, last, 0x88),
                          _mm512_shuffle_i32x4(first, last, 0xDD));
}

// Quarter i is the sum of the quarters of vecs[i].
inline __m512i SumOfQuarters(const __m512i* vecs) {
  const auto merge = [](__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x44), _mm512_shuffle_i32x4(a, b, 0xEE));
  };
  const __m512i first = merge(vecs[0], vecs[1]);
  const __m512i last = merge(vecs[2], vecs[3]);
  return _mm512_add_epi32(_mm512_shuffle_i32x4(first, last, 0x88),
                          _mm512_shuffle_i32x4(first, last, 0xDD));
}

inline __m512i Integers(const float* values, __m512 factor) {
  return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(values), factor));
}

// Stores the codes of two blocks, and returns their sums: the lanes of each quarter are parts of
// the first and last halves of one block and of the other.
inline __m512i PackTwo(const float* values, const float* factors, ByteBlock* to) {
  const __m512 first = _mm512_set1_ps(factors[0]);
  const __m512 second = _mm512_set1_ps(factors[1]);
  const __m512i words0 = _mm512_packs_epi32(Integers(values, first), Integers(values + 16, first));
  const __m512i words1 =
      _mm512_packs_epi32(Integers(values + 32, second), Integers(values + 48, second));
  const __m512i mixed = _mm512_packs_epi16(words0, words1);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i codes = _mm512_permutexvar_epi32(order, mixed);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to[0].codes), _mm512_castsi512_si256(codes));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to[1].codes), _mm512_extracti64x4_epi64(codes, 1));
  return _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), mixed);
}

// Stores what follows the codes of eight blocks: `halves` are the sums of their first and last
// halves in turn, `scales` each scale twice.
inline void StoreFactors(__m512i halves, __m512 scales, ByteBlock* to) {
  constexpr __mmask16 kOdd = 0xAAAA;
  const __m512i swapped = _mm512_shuffle_epi32(halves, _MM_PERM_CDAB);
  const __m512i totals = _mm512_add_epi32(halves, swapped);
  const __m512i minus =
      _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_mask_mov_epi32(totals, kOdd, swapped));
  const __m512i factors =
      _mm512_castps_si512(_mm512_mask_mul_ps(scales, kOdd, scales, _mm512_cvtepi32_ps(totals)));
  const __m512i even = _mm512_unpacklo_epi64(factors, minus);
  const __m512i odd = _mm512_unpackhi_epi64(factors, minus);
  const auto store = [to](int block, __m128i four) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(&to[block].scale), four);
  };
  store(0, _mm512_extracti32x4_epi32(even, 0));
  store(1, _mm512_extracti32x4_epi32(odd, 0));
  store(2, _mm512_extracti32x4_epi32(even, 1));
  store(3, _mm512_extracti32x4_epi32(odd, 1));
  store(4, _mm512_extracti32x4_epi32(even, 2));
  store(5, _mm512_extracti32x4_epi32(odd, 2));
  store(6, _mm512_extracti32x4_epi32(even, 3));
  store(7, _mm512_extracti32x4_epi32(odd, 3));
}

inline __m512 FactorsOf(__m512 highest) {
  const __mmask16 usable = _mm512_cmp_ps_mask(highest, _mm512_set1_ps(kLeastByteInput), _CMP_GE_OQ);
  return _mm512_maskz_div_ps(usable, _mm512_set1_ps(127.0F), highest);
}

// Packs a group without inf and NaN; false, and nothing done, where it has one.
bool PackGroup(const float* values, ByteBlock* to) {
  __m512i group[kGroup];
#pragma GCC unroll 16
  for (int i = 0; i < kGroup; ++i) group[i] = HighestOf(values + i * kByteBlock);
  const __m512i magnitudes = HighestOfEach(group);
  if (_mm512_cmpge_epi32_mask(magnitudes, _mm512_set1_epi32(0x7F800000)) != 0) return false;
  const __m512 highest = _mm512_castsi512_ps(magnitudes);
  alignas(64) float factors[kGroup];
  _mm512_store_ps(factors, FactorsOf(highest));
  __m512i sums[kGroup / 2];
#pragma GCC unroll 8
  for (int i = 0; i < kGroup / 2; ++i) {
    sums[i] = PackTwo(values + 2 * i * kByteBlock, factors + 2 * i, to + 2 * i);
  }
  const __m512 scales = _mm512_mul_ps(highest, _mm512_set1_ps(1.0F / 127.0F));
  const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  const __m512i eight = _mm512_set1_epi32(8);
  StoreFactors(SumOfQuarters(sums), _mm512_permutexvar_ps(twice, scales), to);
  StoreFactors(SumOfQuarters(sums + 4),
               _mm512_permutexvar_ps(_mm512_add_epi32(twice, eight), scales), to + 8);
  return true;
}

void PackOne(const float* values, ByteBlock* to) {
  const float max = _mm_cvtss_f32(
      _mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(HighestOf(values)))));
  const __m512 factor = _mm512_set1_ps(max >= kLeastByteInput ? 127.0F / max : 0.0F);
  const auto codes_of = [factor](const float* from) {
    const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(from), factor);
    // What is no number becomes 0: NaN itself, and inf times a factor of 0.
    return _mm512_cvtepi32_epi8(
        _mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(scaled, scaled, _CMP_ORD_Q), scaled));
  };
  const __m256i codes = _mm256_set_m128i(codes_of(values + 16), codes_of(values));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to->codes), codes);
  __m256i fours = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), codes);
  fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0xB1));
  fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0x4E));
  const int half = _mm_cvtsi128_si32(_mm256_castsi256_si128(fours));
  const int sum = half + _mm_cvtsi128_si32(_mm256_extracti128_si256(fours, 1));
  to->scale = max * (1.0F / 127.0F);
  to->sum = to->scale * static_cast<float>(sum);
  to->minus_codes = -sum;
  to->minus_half = -half;
}

}  // namespace

void Pack(const float* values, std::int64_t blocks, ByteBlock* to) {
  while (blocks > 0) {
    std::int64_t count = 1;
    if (blocks >= kGroup && PackGroup(values, to)) {
      count = kGroup;
    } else {
      PackOne(values, to);
    }
    values += count * kByteBlock;
    to += count;
    blocks -= count;
  }
}

}  // namespace swiftkv::avx512vnni

#endif
