// SPDX-License-Identifier: Apache-2.0
// Computes scores and weighted sums of int8 and int4 pages with the byte dot products of AVX-512
// VNNI.
//
// The instruction multiplies four unsigned bytes by four signed ones. Stored codes, biased by 128,
// are the unsigned side as they lie; 4-bit codes become such bytes by a table of 16. Queries, and
// weights times the scales of V, are rounded to 16-bit integers n = 256 high + low, whose two limbs
// are the signed side. With u = v + 128:
//     sum n v = 256 sum high u + sum low u - 128 sum n
// which fits 32 bits for head sizes to 256 and batches of 64 tokens (parts may wrap round, the sum
// does not), so that only the rounding to n, 2^-16 of the largest, is lost. Beside int4 keys the
// high limbs of a query do alone: what they lose, 2^-8 of the largest channel, is a fifteenth of
// what the keys have lost. Not so for weights, of which many small ones would all be rounded to 0.
// Weights are never negative, so beside 4-bit values they are the unsigned side and the levels, as
// they are, the signed one: no sum of weights is needed.
//
// Included by kernels_avx512*.cpp files only, with S of the unnamed namespace (vector_math.h):
//     Lookup<kHalf>(table, codes)   the bytes of a table (16, four times) that 64 nibbles point at,
//                                   low ones for 0, high ones for 1
#pragma once

#include <immintrin.h>

#include "attention/byte_weights.h"
#include "attention/few_rows_kernels.h"
#include "attention/kernels.h"
#include "formats/row_quantization.h"

namespace swiftkv {

template <class S>
class ByteDotKernels {
 public:
  // Vectors taken at once: 24 sums beside two pages or vectors of channels.
  static constexpr int kMaxVectors = ByteWeights<S>::kMaxVectors;

  // Puts these kernels into a table.
  static void Install(AttentionKernels* kernels) {
    constexpr auto kInt8 = static_cast<int>(FormatId::kInt8);
    constexpr auto kInt4 = static_cast<int>(FormatId::kInt4);
    kernels->prepare_queries = PrepareQueries;
    kernels->dot[kInt8] = DotBytes<BiasedBytes>;
    kernels->dot[kInt4] = DotBytes<BiasedLevels>;
    kernels->weigh[kInt8] = WeighBytes<BiasedBytes>;
    kernels->weigh[kInt4] = WeighBytes<SignedLevels>;
    kernels->tiles_stay_packed[kInt8] = true;
    kernels->tiles_stay_packed[kInt4] = true;
  }

  // AttentionKernels::prepare_queries
  static void PrepareQueries(const QueryTile& queries) {
    const ByteQueries& bytes = queries.bytes;
    const int head_dim = queries.head_dim;
    const __m512i least = _mm512_set1_epi32(-static_cast<int>(kLargestInteger));
    for (int v = 0; v < queries.vectors; ++v) {
      const float* row = queries.rows + v * kRowStride;
      __m512 highest = _mm512_setzero_ps();
      for (int c = 0; c < head_dim; c += 16) {
        highest = _mm512_max_ps(highest, _mm512_abs_ps(_mm512_loadu_ps(row + c)));
      }
      const float max = _mm512_reduce_max_ps(highest);
      const __m512 factor = _mm512_set1_ps(max > kTiny ? kLargestInteger / max : 0.0F);
      __m512i sum = _mm512_setzero_si512();
      __m512i high_sum = _mm512_setzero_si512();
      __mmask16 unordered = 0;
      std::int8_t* high = bytes.limbs + 2 * v * kLimbStride;
      for (int c = 0; c < head_dim; c += 16) {
        const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(row + c), factor);
        unordered |= _mm512_cmp_ps_mask(scaled, scaled, _CMP_UNORD_Q);
        // What is no number converts to the least integer, which no limb holds.
        const __m512i integers = _mm512_max_epi32(_mm512_cvtps_epi32(scaled), least);
        sum = _mm512_add_epi32(sum, integers);
        high_sum =
            _mm512_add_epi32(high_sum, StoreLimbs(integers, high + c, high + kLimbStride + c));
      }
      bytes.scales[v] = unordered != 0 ? __builtin_nanf("") : max / kLargestInteger;
      bytes.sums[2 * v] = _mm512_reduce_add_epi32(sum);
      bytes.sums[2 * v + 1] = _mm512_reduce_add_epi32(high_sum);
    }
  }

  static void Prefetch(const std::byte* p) {
    _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
  }

  static __m512 LoadScales(const std::uint16_t* scales) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales)));
  }

 private:
  static constexpr int kLimbBits = 8;
  static constexpr int kBias = 128;
  static constexpr float kLargestInteger = 127 * 256;  // both limbs stay within a signed byte
  static constexpr int kLimbStride =
      kMaxHeadDim;                        // bytes from the high limbs of a vector to the low
  static constexpr float kTiny = 1e-30F;  // from here on reciprocals, times the above, are finite

  // Pages, or vectors of channels, beside which kVectors * kLimbs sums each fit the registers.
  template <int kVectors, int kLimbs>
  static constexpr int Width() {
    return kVectors * kLimbs <= 6 ? 4 : 2;
  }

  // Half `kHalf` of the codes of a line as operands of 4 channels (or tokens) a lane.
  struct BiasedBytes {
    static constexpr int kHalves = 1;
    static constexpr bool kSigned = false;
    static constexpr int kQueryLimbs = 2;
    template <int kHalf>
    static __m512i Load(const std::byte* line) {
      return _mm512_loadu_si512(line);
    }
  };

  static __m512i Levels() {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kInt4Levels)));
  }

  struct BiasedLevels {
    static constexpr int kHalves = 2;
    static constexpr bool kSigned = false;
    static constexpr int kQueryLimbs = 1;
    template <int kHalf>
    static __m512i Load(const std::byte* line) {
      const __m512i bias = _mm512_set1_epi8(static_cast<char>(kBias));
      return S::template Lookup<kHalf>(_mm512_xor_si512(Levels(), bias), _mm512_loadu_si512(line));
    }
  };

  struct SignedLevels {
    static constexpr int kHalves = 2;
    static constexpr bool kSigned = true;
    template <int kHalf>
    static __m512i Load(const std::byte* line) {
      return S::template Lookup<kHalf>(Levels(), _mm512_loadu_si512(line));
    }
  };

  // The same four limbs in every lane.
  static __m512i BroadcastFour(const std::int8_t* limbs) {
    std::int32_t four;
    __builtin_memcpy(&four, limbs, sizeof(four));
    return _mm512_set1_epi32(four);
  }

  // Splits 16 integers of up to 127 * 256 into limbs and returns the high ones.
  static __m512i StoreLimbs(__m512i integers, std::int8_t* high, std::int8_t* low) {
    const __m512i upper =
        _mm512_srai_epi32(_mm512_add_epi32(integers, _mm512_set1_epi32(128)), kLimbBits);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(high), _mm512_cvtepi32_epi8(upper));
    // The lower byte read as signed is what the upper one, rounded to nearest, leaves.
    _mm_storeu_si128(reinterpret_cast<__m128i*>(low), _mm512_cvtepi32_epi8(integers));
    return upper;
  }

  // sum += unsigned_bytes . signed_bytes, in place. GCC 12 copies the sums round the builtin and
  // spills them.
  [[gnu::always_inline]] static void AddProducts(__m512i& sum, __m512i unsigned_bytes,
                                                 __m512i signed_bytes) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(unsigned_bytes), "v"(signed_bytes));
  }

  // Sums of products for kVectors vectors of kLimbs limbs beside kWidth lines of data.
  template <int kVectors, int kLimbs, int kWidth>
  using Sums = __m512i[kVectors][kLimbs][kWidth];  // of the high limbs, of the low ones

  template <int kVectors, int kLimbs, int kWidth>
  [[gnu::always_inline]] static void Clear(Sums<kVectors, kLimbs, kWidth>& sums) {
#pragma GCC unroll 16
    for (int limb = 0; limb < kLimbs * kVectors; ++limb) {
#pragma GCC unroll 4
      for (int i = 0; i < kWidth; ++i)
        sums[limb / kLimbs][limb % kLimbs][i] = _mm512_setzero_si512();
    }
  }

  // Adds half `kHalf` of `lines`. The high limbs of vector v lie at v * 2 * kStride, the low ones
  // kStride further. Each is spread over a register once and used for all lines.
  template <class Operands, int kHalf, int kStride, int kVectors, int kLimbs, int kWidth>
  [[gnu::always_inline]] static void AddLines(const std::byte* const (&lines)[kWidth],
                                              const std::int8_t* limbs,
                                              Sums<kVectors, kLimbs, kWidth>& sums) {
    __m512i data[kWidth];
#pragma GCC unroll 4
    for (int i = 0; i < kWidth; ++i) data[i] = Operands::template Load<kHalf>(lines[i]);
#pragma GCC unroll 16
    for (int limb = 0; limb < kLimbs * kVectors; ++limb) {
      const __m512i four = BroadcastFour(limbs + limb * (2 / kLimbs) * kStride);
#pragma GCC unroll 4
      for (int i = 0; i < kWidth; ++i) {
        __m512i& sum = sums[limb / kLimbs][limb % kLimbs][i];
        if constexpr (Operands::kSigned) {
          AddProducts(sum, four, data[i]);
        } else {
          AddProducts(sum, data[i], four);
        }
      }
    }
  }

  // The sum of products, less the bias of the data times `sum`: that of the vector's integers, or
  // of its high limbs where there are no others.
  template <class Operands, int kLimbs, int kWidth>
  [[gnu::always_inline]] static __m512 Total(const __m512i (&sums)[kLimbs][kWidth], int i,
                                             std::int32_t sum) {
    __m512i total = sums[0][i];
    if constexpr (kLimbs == 2) {
      total = _mm512_add_epi32(_mm512_slli_epi32(total, kLimbBits), sums[1][i]);
    }
    if constexpr (!Operands::kSigned) {
      total = _mm512_sub_epi32(total, _mm512_set1_epi32(kBias * sum));
    }
    return _mm512_cvtepi32_ps(total);
  }

  // Scores of kVectors query vectors from `first` on against pages [page, page + kPages).
  template <class Operands, int kVectors, int kPages>
  static void DotBlock(const QueryTile& queries, int first, const BatchPlanes& keys, int page,
                       float* scores) {
    constexpr int kLimbs = Operands::kQueryLimbs;
    Sums<kVectors, kLimbs, kPages> sums;
    Clear<kVectors, kLimbs, kPages>(sums);
    const std::int8_t* limbs = queries.bytes.limbs + 2 * first * kLimbStride;
    const int half = queries.head_dim / Operands::kHalves;
    for (int line = 0; line < half / 4; ++line) {
      const std::byte* lines[kPages];
#pragma GCC unroll 4
      for (int p = 0; p < kPages; ++p) {
        lines[p] = keys.now[page + p] + line * 64;
        Prefetch(keys.ahead[page + p] + line * 64);
      }
      AddLines<Operands, 0, kLimbStride, kVectors, kLimbs, kPages>(lines, limbs + line * 4, sums);
      if constexpr (Operands::kHalves == 2) {
        AddLines<Operands, 1, kLimbStride, kVectors, kLimbs, kPages>(lines, limbs + half + line * 4,
                                                                     sums);
      }
    }
#pragma GCC unroll 4
    for (int p = 0; p < kPages; ++p) {
      const __m512 scales = LoadScales(keys.scales[page + p]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const float unit = queries.bytes.scales[first + v] * (kLimbs == 1 ? 1 << kLimbBits : 1);
        const std::int32_t sum = queries.bytes.sums[2 * (first + v) + (kLimbs == 1 ? 1 : 0)];
        _mm512_storeu_ps(scores + v * kBatchTokens + (page + p) * kPageTokens,
                         _mm512_mul_ps(Total<Operands, kLimbs, kPages>(sums[v], p, sum),
                                       _mm512_mul_ps(scales, _mm512_set1_ps(unit))));
      }
    }
  }

  // AttentionKernels::dot
  template <class Operands>
  static void DotBytes(const QueryTile& queries, const BatchPlanes& keys, float* scores) {
    constexpr int kScaleLine = 64;  // directly before the plane
    for (int p = 0; p < keys.pages; ++p) Prefetch(keys.ahead[p] - kScaleLine);
    for (int first = 0; first < queries.vectors;) {
      const int count = NextBlock<ByteDotKernels>(queries.vectors - first);
      WithVectorCount<kMaxVectors>(count, [&]<int kVectors>() {
        constexpr int kPages = Width<kVectors, Operands::kQueryLimbs>();
        float* rows = scores + first * kBatchTokens;
        int page = 0;
        for (; page + kPages <= keys.pages; page += kPages) {
          DotBlock<Operands, kVectors, kPages>(queries, first, keys, page, rows);
        }
        for (; page < keys.pages; ++page) {
          DotBlock<Operands, kVectors, 1>(queries, first, keys, page, rows);
        }
      });
      first += count;
    }
  }

  // out[v] += the weighted sum of a batch, channels [channel, + 16 kVecs).
  template <class Operands, int kVectors, int kVecs>
  static void WeighBlock(const ByteWeights<S>& weights, const BatchPlanes& values, int head_dim,
                         int channel, float* out) {
    Sums<kVectors, 2, kVecs> sums;
    Clear<kVectors, 2, kVecs>(sums);
    const std::int8_t* limbs = weights.limbs[0][0];
    for (int page = 0; page < values.pages; ++page) {
      for (int group = 0; group < kPageTokens / 4 / Operands::kHalves; ++group) {
        const int offset = (group * head_dim + channel) * 4;
        const std::byte* lines[kVecs];
#pragma GCC unroll 4
        for (int i = 0; i < kVecs; ++i) {
          lines[i] = values.now[page] + offset + i * 64;
          Prefetch(values.ahead[page] + offset + i * 64);
        }
        const std::int8_t* four = limbs + page * kPageTokens + group * 4;
        AddLines<Operands, 0, kBatchTokens, kVectors, 2, kVecs>(lines, four, sums);
        if constexpr (Operands::kHalves == 2) {
          AddLines<Operands, 1, kBatchTokens, kVectors, 2, kVecs>(lines, four + kPageTokens / 2,
                                                                  sums);
        }
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const __m512 scale = _mm512_set1_ps(weights.scales[v]);
#pragma GCC unroll 4
      for (int i = 0; i < kVecs; ++i) {
        float* to = out + v * kRowStride + channel + i * 16;
        _mm512_storeu_ps(to, _mm512_fmadd_ps(Total<Operands, 2, kVecs>(sums[v], i, weights.sums[v]),
                                             scale, _mm512_loadu_ps(to)));
      }
    }
  }

  // AttentionKernels::weigh
  template <class Operands>
  static void WeighBytes(const WeightedSum& sum, const BatchPlanes& values) {
    ByteWeights<S> weights;
    for (int first = 0; first < sum.vectors;) {
      const int count = NextBlock<ByteDotKernels>(sum.vectors - first);
      weights.template Fill<Operands::kSigned>(sum.weights + first * kBatchTokens, count, values,
                                               sum.tokens);
      float* out = sum.out + first * kRowStride;
      WithVectorCount<kMaxVectors>(count, [&]<int kVectors>() {
        constexpr int kVecs = Width<kVectors, 2>();
        int channel = 0;
        for (; channel + kVecs * 16 <= sum.head_dim; channel += kVecs * 16) {
          WeighBlock<Operands, kVectors, kVecs>(weights, values, sum.head_dim, channel, out);
        }
        for (; channel < sum.head_dim; channel += 16) {
          WeighBlock<Operands, kVectors, 1>(weights, values, sum.head_dim, channel, out);
        }
      });
      first += count;
    }
  }
};

}  // namespace swiftkv
