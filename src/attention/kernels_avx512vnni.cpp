// SPDX-License-Identifier: Apache-2.0
// Computes scores and weighted sums of int8 and int4 pages with the byte dot products of AVX-512
// VNNI; everything else is as in kernels_avx512.cpp.
//
// The instruction multiplies four unsigned bytes by four signed ones. Stored codes, biased by 128,
// are the unsigned side as they lie; 4-bit codes become such bytes by a table of 16. Queries, and
// weights times the scales of V, are rounded to 16-bit integers n = 256 high + low, whose two limbs
// are the signed side. With u = v + 128:
//     sum n v = 256 sum high u + sum low u - 128 sum n
// which fits 32 bits for head sizes to 256 and batches of 64 tokens (parts may wrap round, the sum
// does not), so that only the rounding to n, 2^-16 of the largest, is lost.
#include "attention/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__) && defined(__AVX512VNNI__)

#include <immintrin.h>

#include "attention/few_rows_kernels.h"
#include "formats/row_quantization.h"

namespace swiftkv {
namespace {

constexpr int kLimbBits = 8;
constexpr int kBias = 128;
constexpr float kLargestInteger = 127 * 256;  // both limbs stay within a signed byte
constexpr int kLimbStride = kMaxHeadDim;      // bytes from the high limbs of a vector to the low
constexpr int kMostVectors = 6;               // 24 sums beside two pages or vectors of channels

struct Vnni {
  static constexpr int kMaxVectors = kMostVectors;
  // Two sums, one a limb, for every vector and page (or vector of channels).
  template <int kVectors>
  static constexpr int Width() {
    return kVectors <= 3 ? 4 : 2;
  }
};

// One line of bytes as operands of 4 channels (or tokens) each.
struct Int8Operands {
  static constexpr int kCount = 1;
  static void Load(const std::byte* line, __m512i (&operands)[1]) {
    operands[0] = _mm512_loadu_si512(line);
  }
};

struct Int4Operands {
  static constexpr int kCount = 2;
  static void Load(const std::byte* line, __m512i (&operands)[2]) {
    const __m512i levels = _mm512_xor_si512(
        _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kInt4Levels))),
        _mm512_set1_epi8(static_cast<char>(kBias)));
    const __m512i nibble = _mm512_set1_epi8(15);
    const __m512i codes = _mm512_loadu_si512(line);
    operands[0] = _mm512_shuffle_epi8(levels, _mm512_and_si512(codes, nibble));
    operands[1] =
        _mm512_shuffle_epi8(levels, _mm512_and_si512(_mm512_srli_epi16(codes, 4), nibble));
  }
};

inline void Prefetch(const std::byte* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
}

inline __m512 LoadScales(const std::uint16_t* scales) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales)));
}

// sum + data . four limbs, the same four in every lane.
inline __m512i AddProducts(__m512i sum, __m512i data, const std::int8_t* limbs) {
  std::int32_t four;
  __builtin_memcpy(&four, limbs, sizeof(four));
  return _mm512_dpbusd_epi32(sum, data, _mm512_set1_epi32(four));
}

// Splits 16 integers of up to 127 * 256 into limbs.
inline void StoreLimbs(__m512i integers, std::int8_t* high, std::int8_t* low) {
  const __m512i half = _mm512_set1_epi32(128);
  const __m512i rest = _mm512_sub_epi32(
      _mm512_and_si512(_mm512_add_epi32(integers, half), _mm512_set1_epi32(255)), half);
  const __m512i upper = _mm512_srai_epi32(_mm512_sub_epi32(integers, rest), kLimbBits);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(high), _mm512_cvtepi32_epi8(upper));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(low), _mm512_cvtepi32_epi8(rest));
}

// AttentionKernels::prepare_queries
void PrepareQueries(const float* rows, int vectors, int head_dim, const ByteQueries& bytes) {
  for (int v = 0; v < vectors; ++v) {
    const float* row = rows + v * kRowStride;
    __m512 highest = _mm512_setzero_ps();
    for (int c = 0; c < head_dim; c += 16) {
      highest = _mm512_max_ps(highest, _mm512_abs_ps(_mm512_loadu_ps(row + c)));
    }
    const float max = _mm512_reduce_max_ps(highest);
    const __m512 factor = _mm512_set1_ps(max > 0 ? kLargestInteger / max : 0.0F);
    __m512i sum = _mm512_setzero_si512();
    std::int8_t* high = bytes.limbs + 2 * v * kLimbStride;
    for (int c = 0; c < head_dim; c += 16) {
      const __m512i integers = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(row + c), factor));
      sum = _mm512_add_epi32(sum, integers);
      StoreLimbs(integers, high + c, high + kLimbStride + c);
    }
    bytes.scales[v] = max / kLargestInteger;
    bytes.sums[v] = _mm512_reduce_add_epi32(sum);
  }
}

// Scores of kVectors query vectors from `first` on against pages [page, page + kPages).
template <class Operands, int kVectors, int kPages>
inline void DotBlock(const QueryTile& queries, int first, const BatchPlanes& keys, int page,
                     float* scores) {
  __m512i high[kVectors][kPages];
  __m512i low[kVectors][kPages];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const __m512i correction = _mm512_set1_epi32(-kBias * queries.bytes.sums[first + v]);
#pragma GCC unroll 4
    for (int p = 0; p < kPages; ++p) {
      high[v][p] = _mm512_setzero_si512();
      low[v][p] = correction;
    }
  }
  const std::int8_t* limbs = queries.bytes.limbs + 2 * first * kLimbStride;
  const int halves = queries.head_dim / Operands::kCount;
  const int lines = halves / 4;
  for (int line = 0; line < lines; ++line) {
#pragma GCC unroll 4
    for (int p = 0; p < kPages; ++p) {
      __m512i operands[Operands::kCount];
      Operands::Load(keys.now[page + p] + line * 64, operands);
      Prefetch(keys.ahead[page + p] + line * 64);
#pragma GCC unroll 2
      for (int i = 0; i < Operands::kCount; ++i) {
        const std::int8_t* four = limbs + i * halves + line * 4;
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          high[v][p] = AddProducts(high[v][p], operands[i], four + 2 * v * kLimbStride);
          low[v][p] = AddProducts(low[v][p], operands[i], four + 2 * v * kLimbStride + kLimbStride);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int p = 0; p < kPages; ++p) {
    const __m512 scales = LoadScales(keys.scales[page + p]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(high[v][p], kLimbBits), low[v][p]);
      const __m512 scale = _mm512_mul_ps(scales, _mm512_set1_ps(queries.bytes.scales[first + v]));
      _mm512_storeu_ps(scores + v * kBatchTokens + (page + p) * kPageTokens,
                       _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale));
    }
  }
}

// AttentionKernels::dot
template <class Operands>
void DotBytes(const QueryTile& queries, const BatchPlanes& keys, float* scores) {
  constexpr int kScaleLine = 64;  // directly before the plane
  for (int p = 0; p < keys.pages; ++p) Prefetch(keys.ahead[p] - kScaleLine);
  for (int first = 0; first < queries.vectors;) {
    const int count = NextBlock<Vnni>(queries.vectors - first);
    WithVectorCount<kMostVectors>(count, [&]<int kVectors>() {
      constexpr int kPages = Vnni::Width<kVectors>();
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

// The weights of some vectors, times the scales of V, as integers.
struct ByteWeights {
  alignas(64) std::int8_t limbs[kMostVectors][2][kBatchTokens];  // high, then low
  float scales[kMostVectors];
  std::int32_t sums[kMostVectors];
};

// Slots from sum.tokens on become 0, whatever lies there.
inline void QuantizeWeights(const float* weights, int vectors, const BatchPlanes& values,
                            int tokens, ByteWeights* bytes) {
  for (int v = 0; v < vectors; ++v) {
    __m512 scaled[kBatchPages];
    __m512 highest = _mm512_setzero_ps();
    for (int page = 0; page < values.pages; ++page) {
      const int valid = tokens - page * kPageTokens;
      const auto mask = static_cast<__mmask16>(valid >= kPageTokens ? 0xFFFF : (1 << valid) - 1);
      scaled[page] = _mm512_maskz_mul_ps(
          mask, _mm512_loadu_ps(weights + v * kBatchTokens + page * kPageTokens),
          LoadScales(values.scales[page]));
      highest = _mm512_max_ps(highest, scaled[page]);
    }
    const float max = _mm512_reduce_max_ps(highest);
    const __m512 factor = _mm512_set1_ps(max > 0 ? kLargestInteger / max : 0.0F);
    __m512i sum = _mm512_setzero_si512();
    for (int page = 0; page < values.pages; ++page) {
      const __m512i integers = _mm512_cvtps_epi32(_mm512_mul_ps(scaled[page], factor));
      sum = _mm512_add_epi32(sum, integers);
      StoreLimbs(integers, bytes->limbs[v][0] + page * kPageTokens,
                 bytes->limbs[v][1] + page * kPageTokens);
    }
    bytes->scales[v] = max / kLargestInteger;
    bytes->sums[v] = _mm512_reduce_add_epi32(sum);
  }
}

// out[v] += the weighted sum of a batch, channels [channel, + 16 kVecs).
template <class Operands, int kVectors, int kVecs>
inline void WeighBlock(const ByteWeights& weights, const BatchPlanes& values, int head_dim,
                       int channel, float* out) {
  __m512i high[kVectors][kVecs];
  __m512i low[kVectors][kVecs];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const __m512i correction = _mm512_set1_epi32(-kBias * weights.sums[v]);
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) {
      high[v][i] = _mm512_setzero_si512();
      low[v][i] = correction;
    }
  }
  constexpr int kGroups = kPageTokens / 4 / Operands::kCount;
  for (int page = 0; page < values.pages; ++page) {
    for (int group = 0; group < kGroups; ++group) {
      const int offset = (group * head_dim + channel) * 4;
      const int token = page * kPageTokens + group * 4;
#pragma GCC unroll 4
      for (int i = 0; i < kVecs; ++i) {
        __m512i operands[Operands::kCount];
        Operands::Load(values.now[page] + offset + i * 64, operands);
        Prefetch(values.ahead[page] + offset + i * 64);
#pragma GCC unroll 2
        for (int half = 0; half < Operands::kCount; ++half) {
          const int slot = token + half * (kPageTokens / 2);
#pragma GCC unroll 8
          for (int v = 0; v < kVectors; ++v) {
            high[v][i] = AddProducts(high[v][i], operands[half], weights.limbs[v][0] + slot);
            low[v][i] = AddProducts(low[v][i], operands[half], weights.limbs[v][1] + slot);
          }
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const __m512 scale = _mm512_set1_ps(weights.scales[v]);
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) {
      const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(high[v][i], kLimbBits), low[v][i]);
      float* to = out + v * kRowStride + channel + i * 16;
      _mm512_storeu_ps(to, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, _mm512_loadu_ps(to)));
    }
  }
}

// AttentionKernels::weigh
template <class Operands>
void WeighBytes(const WeightedSum& sum, const BatchPlanes& values) {
  ByteWeights weights;
  for (int first = 0; first < sum.vectors;) {
    const int count = NextBlock<Vnni>(sum.vectors - first);
    QuantizeWeights(sum.weights + first * kBatchTokens, count, values, sum.tokens, &weights);
    float* out = sum.out + first * kRowStride;
    WithVectorCount<kMostVectors>(count, [&]<int kVectors>() {
      constexpr int kVecs = Vnni::Width<kVectors>();
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

AttentionKernels MakeVnniKernels() {
  constexpr auto kInt8 = static_cast<int>(FormatId::kInt8);
  constexpr auto kInt4 = static_cast<int>(FormatId::kInt4);
  AttentionKernels kernels = *Avx512Kernels();
  kernels.isa = "avx512vnni";
  kernels.prepare_queries = PrepareQueries;
  kernels.dot[kInt8] = DotBytes<Int8Operands>;
  kernels.dot[kInt4] = DotBytes<Int4Operands>;
  kernels.weigh[kInt8] = WeighBytes<Int8Operands>;
  kernels.weigh[kInt4] = WeighBytes<Int4Operands>;
  kernels.tiles_stay_packed[kInt8] = true;
  kernels.tiles_stay_packed[kInt4] = true;
  return kernels;
}

}  // namespace

const AttentionKernels* Avx512VnniKernels() {
  static const AttentionKernels kernels = MakeVnniKernels();
  return &kernels;
}

}  // namespace swiftkv

#else

namespace swiftkv {
const AttentionKernels* Avx512VnniKernels() { return nullptr; }
}  // namespace swiftkv

#endif
