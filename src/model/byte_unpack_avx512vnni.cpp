// SPDX-License-Identifier: Apache-2.0
// Unpacks weights whose blocks are 32 inputs with AVX-512 (byte_strip_avx512vnni.h).
#include "model/byte_unpack_avx512vnni.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__) && defined(__AVX512VNNI__)

#include <immintrin.h>

#include "model/byte_strip_avx512vnni.h"

namespace swiftkv::avx512vnni {
namespace {

// Adds to the nibbles of inputs [4 kFour, 4 kFour + 4) of a block their fifth bits, bits 4 kFour
// and on of the lanes of `high`.
template <int kFour>
[[gnu::always_inline]] inline __m512i WithFifthBits(__m512i nibbles, __m512i high) {
  // The byte of each lane that holds them, in all four bytes.
  const __m512i spread = _mm512_broadcast_i32x4(_mm_add_epi8(
      _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12), _mm_set1_epi8(kFour / 2)));
  const __m512i bits =
      _mm512_set1_epi32(kFour % 2 == 0 ? 0x08040201 : static_cast<int>(0x80402010));
  const __mmask64 set = _mm512_test_epi8_mask(_mm512_shuffle_epi8(high, spread), bits);
  return _mm512_mask_add_epi8(nibbles, set, nibbles, _mm512_set1_epi8(16));
}

template <int kFour>
[[gnu::always_inline]] inline void StoreFiveBits(UnpackedBlock* to, __m512i bytes, __m512i high) {
  StoreCodes(to, kFour, WithFifthBits<kFour>(LowNibbles(bytes), high));
  StoreCodes(to, kFour + 4, WithFifthBits<kFour + 4>(HighNibbles(bytes), high));
}

[[gnu::always_inline]] inline void StoreFiveBits(UnpackedBlock* to, const __m512i (&codes)[4],
                                                 __m512i high) {
  StoreFiveBits<0>(to, codes[0], high);
  StoreFiveBits<1>(to, codes[1], high);
  StoreFiveBits<2>(to, codes[2], high);
  StoreFiveBits<3>(to, codes[3], high);
}

}  // namespace

void UnpackQ4_0(const PackedStrip& packed, UnpackedBlock* to) {
  Strip strip(packed);
  std::int64_t offset = 0;
  for (int block = 0; block < packed.blocks; ++block, offset += q4_0::kBytes, ++to) {
    strip.Prefetch<(q4_0::kBytes * kStripOutputs + kLine - 1) / kLine>();
    __m512i vecs[4];
    strip.Column(offset + q4_0::kCodes, vecs);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) StoreNibbles(to, i, vecs[i]);
    _mm512_store_ps(to->scales, LowHalves(strip.Four(offset + q4_0::kScale)));
  }
}

void UnpackQ4_1(const PackedStrip& packed, UnpackedBlock* to) {
  static_assert(q4_1::kScale == 0 && q4_1::kMin == 2 && q4_1::kCodes == 4 && q4_1::kBytes == 20);
  Strip strip(packed);
  std::int64_t offset = 0;
  int block = 0;
  // Four blocks are five columns.
  for (; block + 4 <= packed.blocks; block += 4, offset += 4 * q4_1::kBytes, to += 4) {
#pragma GCC unroll 5
    for (int column = 0; column < 5; ++column) {
      strip.Prefetch<q4_1::kBytes * kStripOutputs * 4 / 5 / kLine>();
      __m512i vecs[4];
      strip.Column(offset + column * 16, vecs);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const int four = column * 4 + i;
        UnpackedBlock* const at = to + four / 5;
        if (four % 5 == 0) {
          StoreScaleAndMin(at, vecs[i]);
        } else {
          StoreNibbles(at, four % 5 - 1, vecs[i]);
        }
      }
    }
  }
  for (; block < packed.blocks; ++block, offset += q4_1::kBytes, ++to) {
    strip.Prefetch<q4_1::kBytes * kStripOutputs / kLine>();
    __m512i vecs[4];
    strip.Column(offset + q4_1::kCodes, vecs);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) StoreNibbles(to, i, vecs[i]);
    strip.Column(offset, vecs);
    StoreScaleAndMin(to, vecs[0]);
  }
}

void UnpackQ8_0(const PackedStrip& packed, UnpackedBlock* to) {
  Strip strip(packed);
  const __m512i bias = _mm512_set1_epi8(static_cast<char>(128));
  std::int64_t offset = 0;
  for (int block = 0; block < packed.blocks; ++block, offset += q8_0::kBytes, ++to) {
    strip.Prefetch<(q8_0::kBytes * kStripOutputs + kLine - 1) / kLine>();
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      __m512i vecs[4];
      strip.Column(offset + q8_0::kCodes + half * 16, vecs);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) StoreCodes(to, half * 4 + i, _mm512_xor_si512(vecs[i], bias));
    }
    _mm512_store_ps(to->scales, LowHalves(strip.Four(offset + q8_0::kScale)));
  }
}

void UnpackQ5_0(const PackedStrip& packed, UnpackedBlock* to) {
  static_assert(q5_0::kScale == 0 && q5_0::kHigh == 2);
  Strip strip(packed);
  std::int64_t offset = 0;
  for (int block = 0; block < packed.blocks; ++block, offset += q5_0::kBytes, ++to) {
    strip.Prefetch<(q5_0::kBytes * kStripOutputs + kLine - 1) / kLine>();
    __m512i head[4];
    __m512i codes[4];
    strip.Column(offset, head);
    strip.Column(offset + q5_0::kCodes, codes);
    const __m512i high =
        _mm512_or_si512(_mm512_srli_epi32(head[0], 16), _mm512_slli_epi32(head[1], 16));
    StoreFiveBits(to, codes, high);
    _mm512_store_ps(to->scales, LowHalves(head[0]));
  }
}

void UnpackQ5_1(const PackedStrip& packed, UnpackedBlock* to) {
  static_assert(q5_1::kScale == 0 && q5_1::kMin == 2 && q5_1::kHigh == 4);
  Strip strip(packed);
  std::int64_t offset = 0;
  for (int block = 0; block < packed.blocks; ++block, offset += q5_1::kBytes, ++to) {
    strip.Prefetch<q5_1::kBytes * kStripOutputs / kLine>();
    __m512i head[4];
    __m512i codes[4];
    strip.Column(offset, head);
    strip.Column(offset + q5_1::kCodes, codes);
    StoreFiveBits(to, codes, head[1]);
    StoreScaleAndMin(to, head[0]);
  }
}

void UnpackIq4Nl(const PackedStrip& packed, UnpackedBlock* to) {
  Strip strip(packed);
  const NonlinearLevels levels;
  std::int64_t offset = 0;
  for (int block = 0; block < packed.blocks; ++block, offset += q4_0::kBytes, ++to) {
    strip.Prefetch<(q4_0::kBytes * kStripOutputs + kLine - 1) / kLine>();
    __m512i vecs[4];
    strip.Column(offset + q4_0::kCodes, vecs);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) StoreLevels(to, i, vecs[i], levels);
    _mm512_store_ps(to->scales, LowHalves(strip.Four(offset + q4_0::kScale)));
  }
}

}  // namespace swiftkv::avx512vnni

#endif
