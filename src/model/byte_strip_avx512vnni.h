// SPDX-License-Identifier: Apache-2.0
// Reads quantised weights of 16 outputs into lanes with AVX-512, for the files that unpack formats.
//
// A column is 16 bytes of every output at the same offset. Transposed, it is four registers of four
// bytes an output: what the byte dot product takes, once bits are cut out. The lines that the
// caller wants next are prefetched step by step, so that memory works all the while. Included by
// files compiled for AVX-512 VNNI only; everything is always inlined, so that no copy is left for
// others to link to.
#pragma once

#include <immintrin.h>

#include "model/byte_kernels.h"

namespace swiftkv::avx512vnni {

inline constexpr int kLine = 64;  // bytes

// Reads the 16 outputs of a strip, and prefetches.
class Strip {
 public:
  [[gnu::always_inline]] explicit Strip(const PackedStrip& strip)
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
  template <int kLines, int kStride, auto kHint>
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

// The nibbles of four bytes of 32 inputs are inputs i and i + 16; levels(nibbles) are their codes.
template <class Levels>
[[gnu::always_inline]] inline void StoreLevels(UnpackedBlock* to, int four, __m512i bytes,
                                               const Levels& levels) {
  StoreCodes(to, four, levels(LowNibbles(bytes)));
  StoreCodes(to, four + 4, levels(HighNibbles(bytes)));
}

// Levels of IQ4_NL and IQ4_XS.
struct NonlinearLevels {
  const __m512i table =
      _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kNonlinearLevels)));

  [[gnu::always_inline]] __m512i operator()(__m512i nibbles) const {
    return _mm512_shuffle_epi8(table, nibbles);
  }
};

}  // namespace swiftkv::avx512vnni
