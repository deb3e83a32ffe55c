// SPDX-License-Identifier: Apache-2.0
// Unpacks quantised weights of 16 outputs into lanes with AVX-512.
//
// A column is 16 bytes of every output at the same offset. Transposed, it is four registers of four
// bytes an output: what the byte dot product takes, once bits are cut out. The lines that the
// caller wants next are prefetched step by step, so that memory works all the while.
#include "model/byte_unpack_avx512vnni.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__) && defined(__AVX512VNNI__)

#include <immintrin.h>

namespace swiftkv::avx512vnni {
namespace {

constexpr int kLine = 64;

// Reads the 16 outputs of a strip, and prefetches.
class Strip {
 public:
  explicit Strip(const PackedStrip& strip)
      : stride_(strip.row_bytes), soon_(strip.soon), later_(strip.later) {
    for (int i = 0; i < 4; ++i) fours_[i] = strip.weights + 4 * i * stride_;
  }

  // Loads a column: vecs[i] is bytes [4 i, 4 i + 4) of it.
  [[gnu::always_inline]] void Column(std::int64_t offset, __m512i (&vecs)[4]) const {
    const __m512i row0 = EveryFourth(offset);
    const __m512i row1 = EveryFourth(offset + stride_);
    const __m512i row2 = EveryFourth(offset + 2 * stride_);
    const __m512i row3 = EveryFourth(offset + 3 * stride_);
    const __m512i low01 = _mm512_unpacklo_epi32(row0, row1);
    const __m512i high01 = _mm512_unpackhi_epi32(row0, row1);
    const __m512i low23 = _mm512_unpacklo_epi32(row2, row3);
    const __m512i high23 = _mm512_unpackhi_epi32(row2, row3);
    vecs[0] = _mm512_unpacklo_epi64(low01, low23);
    vecs[1] = _mm512_unpackhi_epi64(low01, low23);
    vecs[2] = _mm512_unpacklo_epi64(high01, high23);
    vecs[3] = _mm512_unpackhi_epi64(high01, high23);
  }

  // Loads four bytes of every output.
  [[gnu::always_inline]] __m512i Four(std::int64_t offset) const {
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i offsets = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(static_cast<int>(stride_)));
    return _mm512_i32gather_epi32(offsets, fours_[0] + offset, 1);
  }

  template <int kLines>
  [[gnu::always_inline]] void Prefetch() {
    if (soon_ != nullptr) soon_ = PrefetchFrom<kLines, kLine, _MM_HINT_T0>(soon_);
    if (later_.lines == 0) return;
    later_.first = later_.stride == kLine
                       ? PrefetchFrom<kLines, kLine, _MM_HINT_T1>(later_.first)
                       : PrefetchFrom<kLines, 2 * kLine, _MM_HINT_T1>(later_.first);
  }

 private:
  // 16 bytes of outputs 0, 4, 8 and 12.
  [[gnu::always_inline]] __m512i EveryFourth(std::int64_t offset) const {
    __m512i all = _mm512_castsi128_si512(Load(fours_[0] + offset));
    all = _mm512_inserti32x4(all, Load(fours_[1] + offset), 1);
    all = _mm512_inserti32x4(all, Load(fours_[2] + offset), 2);
    return _mm512_inserti32x4(all, Load(fours_[3] + offset), 3);
  }
  // Prefetches lines of the next kLines, kStride bytes apart, and returns the end of all.
  template <int kLines, int kStride, _mm_hint kHint>
  [[gnu::always_inline]] static const std::byte* PrefetchFrom(const std::byte* p) {
#pragma GCC unroll 32
    for (int offset = 0; offset < kLines * kLine; offset += kStride) {
      _mm_prefetch(reinterpret_cast<const char*>(p + offset), kHint);
    }
    return p + kLines * kLine;
  }
  [[gnu::always_inline]] static __m128i Load(const std::byte* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }

  const std::byte* fours_[4];  // of outputs 0, 4, 8, 12
  std::int64_t stride_;
  const std::byte* soon_;
  AheadLines later_;
};

[[gnu::always_inline]] inline __m512i LowNibbles(__m512i bytes) {
  return _mm512_and_si512(bytes, _mm512_set1_epi8(15));
}
[[gnu::always_inline]] inline __m512i HighNibbles(__m512i bytes) {
  return _mm512_and_si512(_mm512_srli_epi32(bytes, 4), _mm512_set1_epi8(15));
}

// The f16 in the low, or the high, half of every lane.
[[gnu::always_inline]] inline __m512 LowHalves(__m512i pairs) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(pairs));
}
[[gnu::always_inline]] inline __m512 HighHalves(__m512i pairs) {
  return LowHalves(_mm512_srli_epi32(pairs, 16));
}

// Byte kByte of every lane as a number.
template <int kByte>
[[gnu::always_inline]] inline __m512 ByteOf(__m512i fours) {
  if constexpr (kByte < 3) {
    fours = _mm512_and_si512(_mm512_srli_epi32(fours, 8 * kByte), _mm512_set1_epi32(255));
  } else {
    fours = _mm512_srli_epi32(fours, 24);
  }
  return _mm512_cvtepi32_ps(fours);
}
template <int kByte>
[[gnu::always_inline]] inline __m512 SignedByteOf(__m512i fours) {
  return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(fours, 24 - 8 * kByte), 24));
}

[[gnu::always_inline]] inline void StoreCodes(UnpackedBlock* to, int four, __m512i codes) {
  _mm512_store_si512(to->codes[four], codes);
}

// Four bytes of 32 inputs whose nibbles are inputs i and i + 16.
[[gnu::always_inline]] inline void StoreNibbles(UnpackedBlock* to, int four, __m512i bytes) {
  StoreCodes(to, four, LowNibbles(bytes));
  StoreCodes(to, four + 4, HighNibbles(bytes));
}

[[gnu::always_inline]] inline void StoreScaleAndMin(UnpackedBlock* to, __m512i pairs) {
  _mm512_store_ps(to->scales, LowHalves(pairs));
  _mm512_store_ps(to->mins, _mm512_sub_ps(_mm512_set1_ps(-0.0F), HighHalves(pairs)));
}

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

}  // namespace swiftkv::avx512vnni

#endif
