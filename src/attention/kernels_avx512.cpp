// SPDX-License-Identifier: Apache-2.0
// Instantiates the attention kernels for AVX-512 (F, BW, DQ, VL): a vector register holds the 16
// tokens of a page.
#include "attention/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)

#include <immintrin.h>

#include "attention/kernel_table.h"
#include "formats/row_quantization.h"

namespace swiftkv {
namespace {

struct Avx512 {
  using Vec = __m512;
  static constexpr int kAccumulators = 20;
  static constexpr int kMaxVectors = 8;
  static constexpr int kTileRows = 6;
  static constexpr int kTileVecs = 4;

  static Vec Set(float x) { return _mm512_set1_ps(x); }
  static Vec Load(const float* p) { return _mm512_loadu_ps(p); }
  static void Store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
  static Vec Add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  static Vec Sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
  static Vec Mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  static Vec Div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
  static Vec Fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static Vec Min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
  static Vec Max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
  static Vec Abs(Vec v) { return _mm512_abs_ps(v); }
  static Vec CopySign(Vec magnitude, Vec sign) {
    return _mm512_or_ps(magnitude, _mm512_and_ps(sign, _mm512_set1_ps(-0.0F)));
  }
  static float ReduceMax(Vec v) { return _mm512_reduce_max_ps(v); }
  static Vec Fraction(Vec x) {
    constexpr int kFloor = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
    return _mm512_reduce_ps(x, kFloor);  // 0 for -inf
  }
  static Vec ScaleByFloor(Vec v, Vec x) { return _mm512_scalef_ps(v, x); }
  static Vec LoadHalves(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static void LoadBrains(const std::byte* p, Vec* even, Vec* odd) {
    const __m512i pairs = _mm512_loadu_si512(p);
    *even = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    *odd = _mm512_castsi512_ps(
        _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
  }
  // The byte at the top of each lane: its sign stays, the rest moves to below the sign.
  template <int kMantissa>
  static Vec PlaceFp8(__m512i lanes) {
    constexpr int kShift = 1 + kMantissa;  // 8 - (1 + exponent bits) more places for the exponent
    constexpr unsigned kKept = 0x80000000U | (0x7FU << (24 - kShift));
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_srai_epi32(lanes, kShift),
                                                _mm512_set1_epi32(static_cast<int>(kKept))));
  }
  template <int kMantissa>
  static void LoadFp8(const std::byte* p, Vec* vecs) {
    const __m512i codes = _mm512_loadu_si512(p);
    vecs[0] = PlaceFp8<kMantissa>(_mm512_slli_epi32(codes, 24));
    vecs[1] = PlaceFp8<kMantissa>(_mm512_slli_epi32(codes, 16));
    vecs[2] = PlaceFp8<kMantissa>(_mm512_slli_epi32(codes, 8));
    vecs[3] = PlaceFp8<kMantissa>(codes);
  }
  using Bytes = __m512i;
  static Bytes LoadBiased(const std::byte* p) {
    return _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8(static_cast<char>(0x80)));
  }
  static void LoadLevels(const std::byte* p, Bytes* low, Bytes* high) {
    const __m512i levels =
        _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kInt4Levels)));
    const __m512i nibble = _mm512_set1_epi8(15);
    const __m512i codes = _mm512_loadu_si512(p);
    *low = _mm512_shuffle_epi8(levels, _mm512_and_si512(codes, nibble));
    *high = _mm512_shuffle_epi8(levels, _mm512_and_si512(_mm512_srli_epi16(codes, 4), nibble));
  }
  static void SpreadBytes(Bytes bytes, Vec* vecs) {
    vecs[0] = _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(bytes, 24), 24));
    vecs[1] = _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(bytes, 16), 24));
    vecs[2] = _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(bytes, 8), 24));
    vecs[3] = _mm512_cvtepi32_ps(_mm512_srai_epi32(bytes, 24));
  }
  static Vec WhereInRange(const std::int32_t* p, std::int32_t low, std::int32_t high, Vec a,
                          Vec b) {
    const __m512i values = _mm512_loadu_si512(p);
    const __mmask16 inside = _mm512_cmple_epi32_mask(_mm512_set1_epi32(low), values) &
                             _mm512_cmple_epi32_mask(values, _mm512_set1_epi32(high));
    return _mm512_mask_blend_ps(inside, b, a);
  }
  static void Prefetch(const std::byte* p) {
    _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
  }
};

constexpr AttentionKernels kKernels = MakeKernels<Avx512>("avx512");

}  // namespace

const AttentionKernels* Avx512Kernels() { return &kKernels; }

}  // namespace swiftkv

#else

namespace swiftkv {
const AttentionKernels* Avx512Kernels() { return nullptr; }
}  // namespace swiftkv

#endif
