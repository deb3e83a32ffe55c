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
  // Codes in the upper bytes of words become halves of 1/256 the value (E4M3) or of the value.
  static __m512i E4m3Halves(__m512i words) {
    const __m512i shifted = _mm512_srai_epi16(_mm512_slli_epi16(words, 8), 1);
    return _mm512_and_si512(shifted, _mm512_set1_epi16(static_cast<short>(0xBFFF)));
  }
  static void ConvertHalves(__m512i halves, Vec* first, Vec* second) {
    *first = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
    *second = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
  }
  static __m512i LoadWords(const std::byte* p) {
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static void LoadE4m3(const std::byte* p, Vec* first, Vec* second) {
    ConvertHalves(E4m3Halves(LoadWords(p)), first, second);
  }
  static void LoadE5m2(const std::byte* p, Vec* first, Vec* second) {
    ConvertHalves(_mm512_slli_epi16(LoadWords(p), 8), first, second);
  }
  static __m256i LoadHalfWords(const std::byte* p) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static Vec LoadE4m3(const std::byte* p) {
    const __m256i shifted = _mm256_srai_epi16(_mm256_slli_epi16(LoadHalfWords(p), 8), 1);
    return _mm512_cvtph_ps(
        _mm256_and_si256(shifted, _mm256_set1_epi16(static_cast<short>(0xBFFF))));
  }
  static Vec LoadE5m2(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_slli_epi16(LoadHalfWords(p), 8));
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
