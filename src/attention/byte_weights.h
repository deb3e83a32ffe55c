// SPDX-License-Identifier: Apache-2.0
// Rounds the weights of a batch, times the scales of V, to 16-bit integers 256 high + low, whose
// two bytes are operands of the byte dot products.
//
// Bytes are signed, high rounded to nearest, or unsigned. Included by byte_dot_kernels.h only, with
// S of the unnamed namespace (vector_math.h).
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "attention/kernels.h"

namespace swiftkv {

template <class S>
class ByteWeights {
 public:
  static constexpr int kMaxVectors = 6;
  static constexpr int kLimbBits = 8;

  // Fills them from weights [vectors, 64]; slots from `tokens` on become 0, whatever lies there.
  // Unsigned limbs have no sums.
  template <bool kUnsigned>
  void Fill(const float* weights, int vectors, const BatchPlanes& values, int tokens) {
    constexpr float kLargest = kUnsigned ? 0xFFFF : 127 * 256;
    __m512 page_scales[kBatchPages];
#pragma GCC unroll 4
    for (int page = 0; page < kBatchPages; ++page) {
      const int valid = tokens - page * kPageTokens;
      const auto mask = static_cast<__mmask16>(valid >= kPageTokens ? 0xFFFF
                                               : valid <= 0         ? 0
                                                                    : (1 << valid) - 1);
      page_scales[page] = _mm512_maskz_mov_ps(
          mask, _mm512_cvtph_ps(
                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values.scales[page]))));
    }
    for (int v = 0; v < vectors; ++v) {
      __m512 scaled[kBatchPages];
#pragma GCC unroll 4
      for (int page = 0; page < kBatchPages; ++page) {
        // A slot without a scale may hold anything as its weight.
        const __m512 scale = page_scales[page];
        scaled[page] =
            _mm512_maskz_mul_ps(_mm512_cmp_ps_mask(scale, _mm512_setzero_ps(), _CMP_NEQ_OQ), scale,
                                _mm512_loadu_ps(weights + v * kBatchTokens + page * kPageTokens));
      }
      const __m512 highest =
          _mm512_max_ps(_mm512_max_ps(scaled[0], scaled[1]), _mm512_max_ps(scaled[2], scaled[3]));
      const float max = _mm512_reduce_max_ps(highest);
      const __m512 factor = _mm512_set1_ps(max > kTiny ? kLargest / max : 0.0F);
      __m512i integers[kBatchPages];
#pragma GCC unroll 4
      for (int page = 0; page < kBatchPages; ++page) {
        integers[page] = _mm512_cvtps_epi32(_mm512_mul_ps(scaled[page], factor));
      }
      if constexpr (kUnsigned) {
        StoreUnsignedLimbs(integers, limbs[v][0], limbs[v][1]);
      } else {
        sums[v] = StoreSignedLimbs(integers, limbs[v][0], limbs[v][1]);
      }
      scales[v] = max / kLargest;
    }
  }

  alignas(64) std::int8_t limbs[kMaxVectors][2][kBatchTokens];  // high, then low
  float scales[kMaxVectors];
  std::int32_t sums[kMaxVectors];  // of signed integers

 private:
  static constexpr float kTiny = 1e-30F;  // from here on reciprocals, times 2^16, are finite

  // Writes 64 bytes that two rounds of packing left interleaved by quarters of a register: dword
  // 4 l + k holds tokens 16 k + 4 l on.
  static void StoreBytes(__m512i packed, std::int8_t* to) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, packed));
  }

  // Splits the integers of a batch, which fit 16 signed bits, into signed limbs and returns their
  // sum.
  static std::int32_t StoreSignedLimbs(const __m512i (&integers)[kBatchPages], std::int8_t* high,
                                       std::int8_t* low) {
    const __m512i first = _mm512_packs_epi32(integers[0], integers[1]);
    const __m512i second = _mm512_packs_epi32(integers[2], integers[3]);
    const __m512i half = _mm512_set1_epi16(128);
    const auto upper = [&](__m512i words) {
      return _mm512_srai_epi16(_mm512_add_epi16(words, half), kLimbBits);
    };
    const auto lower = [](__m512i words) {
      return _mm512_srai_epi16(_mm512_slli_epi16(words, kLimbBits), kLimbBits);
    };
    StoreBytes(_mm512_packs_epi16(upper(first), upper(second)), high);
    StoreBytes(_mm512_packs_epi16(lower(first), lower(second)), low);
    const __m512i one = _mm512_set1_epi16(1);
    return _mm512_reduce_add_epi32(
        _mm512_add_epi32(_mm512_madd_epi16(first, one), _mm512_madd_epi16(second, one)));
  }

  // Splits those that fit 16 unsigned bits into unsigned limbs.
  static void StoreUnsignedLimbs(const __m512i (&integers)[kBatchPages], std::int8_t* high,
                                 std::int8_t* low) {
    const __m512i first = _mm512_packus_epi32(integers[0], integers[1]);
    const __m512i second = _mm512_packus_epi32(integers[2], integers[3]);
    const __m512i byte = _mm512_set1_epi16(0xFF);
    StoreBytes(_mm512_packus_epi16(_mm512_srli_epi16(first, kLimbBits),
                                   _mm512_srli_epi16(second, kLimbBits)),
               high);
    StoreBytes(_mm512_packus_epi16(_mm512_and_si512(first, byte), _mm512_and_si512(second, byte)),
               low);
  }
};

}  // namespace swiftkv
