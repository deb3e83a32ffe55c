// SPDX-License-Identifier: Apache-2.0
// Unpacks weights whose blocks are 256 inputs with AVX-512 (byte_strip_avx512vnni.h).
#include "model/byte_unpack_avx512vnni.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__) && defined(__AVX512VNNI__)

#include <immintrin.h>

#include "model/byte_strip_avx512vnni.h"

namespace swiftkv::avx512vnni {
namespace {

// Factors of the eight blocks of Q4_K or Q5_K, whose first column is `header`.
[[gnu::always_inline]] inline void StoreKFactors(UnpackedBlock* to, const __m512i (&header)[4]) {
  const __m512 scale = LowHalves(header[0]);
  const __m512 min = HighHalves(header[0]);
  const __m512i six = _mm512_set1_epi8(63);
  const __m512i upper = _mm512_set1_epi8(48);
  const auto upper_bits = [upper](__m512i bytes) {
    return _mm512_and_si512(_mm512_srli_epi32(bytes, 2), upper);
  };
  const __m512i scales[2] = {_mm512_and_si512(header[1], six),
                             _mm512_or_si512(LowNibbles(header[3]), upper_bits(header[1]))};
  const __m512i mins[2] = {_mm512_and_si512(header[2], six),
                           _mm512_or_si512(HighNibbles(header[3]), upper_bits(header[2]))};
  const auto store = [&]<int kBlock>() {
    UnpackedBlock* const block = to + kBlock;
    _mm512_store_ps(block->scales, _mm512_mul_ps(scale, ByteOf<kBlock % 4>(scales[kBlock / 4])));
    _mm512_store_ps(block->mins, _mm512_mul_ps(min, ByteOf<kBlock % 4>(mins[kBlock / 4])));
  };
  store.template operator()<0>();
  store.template operator()<1>();
  store.template operator()<2>();
  store.template operator()<3>();
  store.template operator()<4>();
  store.template operator()<5>();
  store.template operator()<6>();
  store.template operator()<7>();
}

}  // namespace

void UnpackQ4_K(const PackedStrip& packed, UnpackedBlock* to) {
  static_assert(q4_k::kScale == 0 && q4_k::kMin == 2 && q4_k::kPacked == 4);
  Strip strip(packed);
  std::int64_t offset = 0;
  for (int block = 0; block < packed.blocks; block += 8, offset += q4_k::kBytes, to += 8) {
    __m512i vecs[4];
    strip.Column(offset, vecs);
    StoreKFactors(to, vecs);
    for (int pair = 0; pair < 4; ++pair) {
      strip.Prefetch<q4_k::kBytes * kStripOutputs / 4 / kLine>();
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        strip.Column(offset + q4_k::kCodes + pair * 32 + half * 16, vecs);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          StoreCodes(to + 2 * pair, half * 4 + i, LowNibbles(vecs[i]));
          StoreCodes(to + 2 * pair + 1, half * 4 + i, HighNibbles(vecs[i]));
        }
      }
    }
  }
}

namespace {

// a | b & mask
[[gnu::always_inline]] inline __m512i OrBits(__m512i a, __m512i b, __m512i mask) {
  return _mm512_ternarylogic_epi32(a, b, mask, 0xF8);
}

// The two blocks of 32 inputs of a pair of Q5_K: their codes' fifth bits are bits kPair 2 and
// kPair 2 + 1 of `high`.
template <int kPair>
[[gnu::always_inline]] inline void UnpackQ5KPair(Strip& strip, std::int64_t offset,
                                                 const __m512i (&high)[8], UnpackedBlock* to) {
  const __m512i fifth = _mm512_set1_epi8(16);
  const auto shifted = []<int kBit>(__m512i bits) {
    return kBit < 4 ? _mm512_slli_epi32(bits, kBit < 4 ? 4 - kBit : 0)
                    : _mm512_srli_epi32(bits, kBit < 4 ? 0 : kBit - 4);
  };
  strip.Prefetch<q5_k::kBytes * kStripOutputs / 4 / kLine>();
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    __m512i vecs[4];
    strip.Column(offset + q5_k::kCodes + kPair * 32 + half * 16, vecs);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const int four = half * 4 + i;
      const __m512i first = shifted.template operator()<2 * kPair>(high[four]);
      const __m512i second = shifted.template operator()<2 * kPair + 1>(high[four]);
      StoreCodes(to + 2 * kPair, four, OrBits(LowNibbles(vecs[i]), first, fifth));
      StoreCodes(to + 2 * kPair + 1, four, OrBits(HighNibbles(vecs[i]), second, fifth));
    }
  }
}

// Loads two columns, 32 bytes of every output.
[[gnu::always_inline]] inline void TwoColumns(const Strip& strip, std::int64_t offset,
                                              __m512i (&vecs)[8]) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    __m512i four[4];
    strip.Column(offset + half * 16, four);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) vecs[half * 4 + i] = four[i];
  }
}

// Two of the four blocks of 32 inputs of a half of Q6_K: block kBlock from low nibbles, kBlock + 2
// from high ones.
template <int kBlock>
[[gnu::always_inline]] inline void UnpackQ6KPair(Strip& strip, std::int64_t offset,
                                                 const __m512i (&high)[8], UnpackedBlock* to) {
  const __m512i upper = _mm512_set1_epi8(48);
  strip.Prefetch<(q6_k::kBytes * kStripOutputs / 4 + kLine - 1) / kLine>();
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    __m512i vecs[4];
    strip.Column(offset + kBlock * 32 + half * 16, vecs);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const int four = half * 4 + i;
      const __m512i first = _mm512_slli_epi32(high[four], 4 - 2 * kBlock);
      const __m512i second = kBlock == 0 ? high[four] : _mm512_srli_epi32(high[four], 2);
      StoreCodes(to + kBlock, four, OrBits(LowNibbles(vecs[i]), first, upper));
      StoreCodes(to + kBlock + 2, four, OrBits(HighNibbles(vecs[i]), second, upper));
    }
  }
}

// The four scales in a lane of `fours` are those of the halves of two blocks.
[[gnu::always_inline]] inline void StoreHalfScales(UnpackedBlock* to, __m512i fours, __m512 scale) {
  _mm512_store_ps(to[0].scales, _mm512_mul_ps(scale, SignedByteOf<0>(fours)));
  _mm512_store_ps(to[0].mins, _mm512_mul_ps(scale, SignedByteOf<1>(fours)));
  _mm512_store_ps(to[1].scales, _mm512_mul_ps(scale, SignedByteOf<2>(fours)));
  _mm512_store_ps(to[1].mins, _mm512_mul_ps(scale, SignedByteOf<3>(fours)));
}

}  // namespace

void UnpackQ5_K(const PackedStrip& packed, UnpackedBlock* to) {
  static_assert(q5_k::kScale == 0 && q5_k::kMin == 2 && q5_k::kPacked == 4);
  Strip strip(packed);
  std::int64_t offset = 0;
  for (int block = 0; block < packed.blocks; block += 8, offset += q5_k::kBytes, to += 8) {
    __m512i header[4];
    strip.Column(offset, header);
    StoreKFactors(to, header);
    __m512i high[8];
    TwoColumns(strip, offset + q5_k::kHigh, high);
    UnpackQ5KPair<0>(strip, offset, high, to);
    UnpackQ5KPair<1>(strip, offset, high, to);
    UnpackQ5KPair<2>(strip, offset, high, to);
    UnpackQ5KPair<3>(strip, offset, high, to);
  }
}

void UnpackQ6_K(const PackedStrip& packed, UnpackedBlock* to) {
  static_assert(q6_k::kScale == q6_k::kBytes - 2);
  Strip strip(packed);
  std::int64_t offset = 0;
  for (int block = 0; block < packed.blocks; block += 8, offset += q6_k::kBytes) {
    // Read from two bytes before, so as not to read past the end.
    const __m512 scale = HighHalves(strip.Four(offset + q6_k::kScale - 2));
    __m512i scales[4];
    strip.Column(offset + q6_k::kScales, scales);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) StoreHalfScales(to + 2 * i, scales[i], scale);
    for (int half = 0; half < 2; ++half, to += 4) {
      __m512i high[8];
      TwoColumns(strip, offset + q6_k::kHigh + half * 32, high);
      UnpackQ6KPair<0>(strip, offset + q6_k::kLow + half * 64, high, to);
      UnpackQ6KPair<1>(strip, offset + q6_k::kLow + half * 64, high, to);
    }
  }
}

namespace {

// The factor of block kBlock of IQ4_XS: low bits in nibbles of `low`, two high ones from bit 16 of
// `head` on.
template <int kBlock>
[[gnu::always_inline]] inline __m512 Iq4XsScale(__m512i head, __m512i low) {
  const __m512i lower = _mm512_and_si512(_mm512_srli_epi32(low, 4 * kBlock), _mm512_set1_epi32(15));
  const __m512i upper = _mm512_slli_epi32(
      _mm512_and_si512(_mm512_srli_epi32(head, 16 + 2 * kBlock), _mm512_set1_epi32(3)), 4);
  return _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_or_si512(lower, upper), _mm512_set1_epi32(32)));
}

template <int kBlock>
[[gnu::always_inline]] inline void UnpackIq4XsBlock(Strip& strip, std::int64_t offset,
                                                    const __m512i (&head)[4],
                                                    const NonlinearLevels& levels,
                                                    UnpackedBlock* to) {
  strip.Prefetch<(iq4_xs::kBytes * kStripOutputs / 8 + kLine - 1) / kLine>();
  __m512i vecs[4];
  strip.Column(offset + iq4_xs::kCodes + kBlock * 16, vecs);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) StoreLevels(to + kBlock, i, vecs[i], levels);
  _mm512_store_ps(to[kBlock].scales,
                  _mm512_mul_ps(LowHalves(head[0]), Iq4XsScale<kBlock>(head[0], head[1])));
}

}  // namespace

void UnpackIq4Xs(const PackedStrip& packed, UnpackedBlock* to) {
  static_assert(iq4_xs::kScale == 0 && iq4_xs::kHigh == 2 && iq4_xs::kLow == 4);
  Strip strip(packed);
  const NonlinearLevels levels;
  std::int64_t offset = 0;
  for (int block = 0; block < packed.blocks; block += 8, offset += iq4_xs::kBytes, to += 8) {
    __m512i head[4];
    strip.Column(offset, head);
    UnpackIq4XsBlock<0>(strip, offset, head, levels, to);
    UnpackIq4XsBlock<1>(strip, offset, head, levels, to);
    UnpackIq4XsBlock<2>(strip, offset, head, levels, to);
    UnpackIq4XsBlock<3>(strip, offset, head, levels, to);
    UnpackIq4XsBlock<4>(strip, offset, head, levels, to);
    UnpackIq4XsBlock<5>(strip, offset, head, levels, to);
    UnpackIq4XsBlock<6>(strip, offset, head, levels, to);
    UnpackIq4XsBlock<7>(strip, offset, head, levels, to);
  }
}

}  // namespace swiftkv::avx512vnni

#endif
