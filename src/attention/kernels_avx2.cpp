// SPDX-License-Identifier: Apache-2.0
// Instantiates the attention kernels for AVX2 with FMA and F16C: two registers hold the 16 tokens
// of a page.
#include "attention/kernels.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>

#include "attention/kernel_table.h"
#include "formats/row_quantization.h"

namespace swiftkv {
namespace {

struct Avx2 {
  struct Vec {
    __m256 low;
    __m256 high;
  };
  static constexpr int kAccumulators = 5;
  static constexpr int kMaxVectors = 4;
  static constexpr int kTileRows = 6;
  static constexpr int kTileVecs = 1;

  static Vec Set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static Vec Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static void Store(float* p, Vec v) {
    _mm256_storeu_ps(p, v.low);
    _mm256_storeu_ps(p + 8, v.high);
  }
  static Vec Add(Vec a, Vec b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  static Vec Sub(Vec a, Vec b) {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
  }
  static Vec Mul(Vec a, Vec b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  static Vec Div(Vec a, Vec b) {
    return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
  }
  static Vec Fma(Vec a, Vec b, Vec c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  static Vec Min(Vec a, Vec b) {
    return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
  }
  static Vec Max(Vec a, Vec b) {
    return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
  }
  static Vec Abs(Vec v) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_andnot_ps(sign, v.low), _mm256_andnot_ps(sign, v.high)};
  }
  static Vec CopySign(Vec magnitude, Vec sign) {
    const __m256 bit = _mm256_set1_ps(-0.0F);
    return {_mm256_or_ps(magnitude.low, _mm256_and_ps(sign.low, bit)),
            _mm256_or_ps(magnitude.high, _mm256_and_ps(sign.high, bit))};
  }
  static float ReduceMax(Vec v) {
    const __m256 eight = _mm256_max_ps(v.low, v.high);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
  }
  static Vec Fraction(Vec x) {
    return {_mm256_sub_ps(x.low, _mm256_floor_ps(x.low)),
            _mm256_sub_ps(x.high, _mm256_floor_ps(x.high))};
  }
  static __m256 ScaleHalf(__m256 v, __m256 x) {
    const __m256i floor = _mm256_cvtps_epi32(_mm256_floor_ps(x));
    const __m256i exponent = _mm256_add_epi32(floor, _mm256_set1_epi32(127));
    const __m256 scaled = _mm256_mul_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
    return _mm256_and_ps(_mm256_cmp_ps(x, _mm256_set1_ps(-126.0F), _CMP_GE_OQ), scaled);
  }
  static Vec ScaleByFloor(Vec v, Vec x) {
    return {ScaleHalf(v.low, x.low), ScaleHalf(v.high, x.high)};
  }
  static Vec LoadHalves(const std::byte* p) {
    const auto* halves = reinterpret_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
  }
  static void LoadBrains(const std::byte* p, Vec* even, Vec* odd) {
    const auto* pairs = reinterpret_cast<const __m256i*>(p);
    const __m256i low = _mm256_loadu_si256(pairs);
    const __m256i high = _mm256_loadu_si256(pairs + 1);
    const __m256i top = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
    *even = {_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)),
             _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))};
    *odd = {_mm256_castsi256_ps(_mm256_and_si256(low, top)),
            _mm256_castsi256_ps(_mm256_and_si256(high, top))};
  }
  // The byte at the top of each lane: its sign stays, the rest moves to below the sign.
  template <int kMantissa>
  static __m256 PlaceFp8(__m256i lanes) {
    constexpr int kShift = 1 + kMantissa;  // 8 - (1 + exponent bits) more places for the exponent
    constexpr unsigned kKept = 0x80000000U | (0x7FU << (24 - kShift));
    return _mm256_castsi256_ps(_mm256_and_si256(_mm256_srai_epi32(lanes, kShift),
                                                _mm256_set1_epi32(static_cast<int>(kKept))));
  }
  template <int kMantissa>
  static void LoadFp8(const std::byte* p, Vec* vecs) {
    const __m256i low = LoadHalf(p);
    const __m256i high = LoadHalf(p + 32);
    vecs[0] = {PlaceFp8<kMantissa>(_mm256_slli_epi32(low, 24)),
               PlaceFp8<kMantissa>(_mm256_slli_epi32(high, 24))};
    vecs[1] = {PlaceFp8<kMantissa>(_mm256_slli_epi32(low, 16)),
               PlaceFp8<kMantissa>(_mm256_slli_epi32(high, 16))};
    vecs[2] = {PlaceFp8<kMantissa>(_mm256_slli_epi32(low, 8)),
               PlaceFp8<kMantissa>(_mm256_slli_epi32(high, 8))};
    vecs[3] = {PlaceFp8<kMantissa>(low), PlaceFp8<kMantissa>(high)};
  }
  struct Bytes {
    __m256i low;
    __m256i high;
  };
  static __m256i LoadHalf(const std::byte* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static Bytes LoadBiased(const std::byte* p) {
    const __m256i bias = _mm256_set1_epi8(static_cast<char>(0x80));
    return {_mm256_xor_si256(LoadHalf(p), bias), _mm256_xor_si256(LoadHalf(p + 32), bias)};
  }
  static void LoadLevels(const std::byte* p, Bytes* low, Bytes* high) {
    const __m256i levels =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kInt4Levels)));
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m256i first = LoadHalf(p);
    const __m256i second = LoadHalf(p + 32);
    *low = {_mm256_shuffle_epi8(levels, _mm256_and_si256(first, nibble)),
            _mm256_shuffle_epi8(levels, _mm256_and_si256(second, nibble))};
    *high = {_mm256_shuffle_epi8(levels, _mm256_and_si256(_mm256_srli_epi16(first, 4), nibble)),
             _mm256_shuffle_epi8(levels, _mm256_and_si256(_mm256_srli_epi16(second, 4), nibble))};
  }
  template <int kByte>
  static __m256 SpreadHalf(__m256i bytes) {
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(bytes, 24 - 8 * kByte), 24));
  }
  static void SpreadBytes(const Bytes& bytes, Vec* vecs) {
    vecs[0] = {SpreadHalf<0>(bytes.low), SpreadHalf<0>(bytes.high)};
    vecs[1] = {SpreadHalf<1>(bytes.low), SpreadHalf<1>(bytes.high)};
    vecs[2] = {SpreadHalf<2>(bytes.low), SpreadHalf<2>(bytes.high)};
    vecs[3] = {SpreadHalf<3>(bytes.low), SpreadHalf<3>(bytes.high)};
  }
  static __m256 BlendHalf(const std::int32_t* p, std::int32_t low, std::int32_t high, __m256 a,
                          __m256 b) {
    const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i outside = _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(low), values),
                                            _mm256_cmpgt_epi32(values, _mm256_set1_epi32(high)));
    return _mm256_blendv_ps(a, b, _mm256_castsi256_ps(outside));
  }
  static Vec WhereInRange(const std::int32_t* p, std::int32_t low, std::int32_t high, Vec a,
                          Vec b) {
    return {BlendHalf(p, low, high, a.low, b.low), BlendHalf(p + 8, low, high, a.high, b.high)};
  }
  static void Prefetch(const std::byte* p) {
    _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
  }
};

constexpr AttentionKernels kKernels = MakeKernels<Avx2>("avx2");

}  // namespace

const AttentionKernels* Avx2Kernels() { return &kKernels; }

}  // namespace swiftkv

#else

namespace swiftkv {
const AttentionKernels* Avx2Kernels() { return nullptr; }
}  // namespace swiftkv

#endif
