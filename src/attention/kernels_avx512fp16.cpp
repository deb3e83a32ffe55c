// SPDX-License-Identifier: Apache-2.0
// Computes scores and weighted sums of fp8 pages in the arithmetic of AVX-512 FP16, at twice the
// rate of f32; everything else is as in kernels_avx512vnni.cpp.
//
// Half the codes of a line, moved into the bits of f16, are an operand of two channels (or tokens)
// a lane; E4M3's exponents count from another number there. Queries, and weights times the scales
// of V, are rounded to f16. A sum takes at most 32 products in f16 before it goes on in f32, and
// operands are scaled so that the largest of them all do not overflow. A term loses up to 2^-12 of
// itself and, with every term, the sum up to 2^-12 of what it is by then: about 1e-3 of what random
// terms add up to, where fp8 itself has lost 3e-2.
#include "attention/kernels.h"

#if defined(__AVX512FP16__) && defined(__AVX512VBMI__)

#include <immintrin.h>

#include "attention/byte_dot_kernels.h"
#include "attention/few_rows_kernels.h"

namespace swiftkv {
namespace {

constexpr int kMostVectors = 6;   // 24 sums beside four lines
constexpr int kRunChannels = 64;  // of which a sum takes one in two, as of the tokens of a batch
constexpr float kLargestTerm = 1024;  // 32 of them stay far below 65504
constexpr float kTiny = 1e-30F;       // from here on reciprocals are finite

struct Fp16 {
  static constexpr int kMaxVectors = kMostVectors;

  // The instruction takes six bits of a code, so a table of four times 16 levels needs no mask.
  template <int kHalf>
  static __m512i Lookup(__m512i table, __m512i codes) {
    if constexpr (kHalf == 1) codes = _mm512_srli_epi16(codes, 4);
    return _mm512_permutexvar_epi8(codes, table);
  }
};

using Bytes = ByteDotKernels<Fp16>;

// A code is kFactor times the f16 that it becomes.
struct E4m3 {
  static constexpr int kForm = 0;  // of the queries
  static constexpr float kFactor = 0x1p8F;
  static constexpr float kLargest = 1.75F;
  // The product by 128 is a shift that spreads the sign over two bits, of which one is cleared.
  template <int kOdd>
  static __m512h Load(__m512i codes) {
    const __m512i one_of_two = _mm512_set1_epi16(static_cast<short>(kOdd == 0 ? 0x0080 : 0x8000));
    const __m512i kept = _mm512_set1_epi16(static_cast<short>(0xBF80));
    return _mm512_castsi512_ph(_mm512_and_si512(_mm512_maddubs_epi16(one_of_two, codes), kept));
  }
};

struct E5m2 {
  static constexpr int kForm = 1;
  static constexpr float kFactor = 1;
  static constexpr float kLargest = 57344;
  template <int kOdd>
  static __m512h Load(__m512i codes) {
    if constexpr (kOdd == 0) return _mm512_castsi512_ph(_mm512_slli_epi16(codes, 8));
    const __m512i kept = _mm512_set1_epi16(static_cast<short>(0xFF00));
    return _mm512_castsi512_ph(_mm512_and_si512(codes, kept));
  }
};

// What the largest channel of a query, or the largest weight, becomes.
template <class Format>
constexpr float kTop = kLargestTerm / Format::kLargest;

// The same two halves in every lane.
inline __m512h BroadcastPair(const std::uint16_t* halves) {
  std::int32_t pair;
  __builtin_memcpy(&pair, halves, sizeof(pair));
  return _mm512_castsi512_ph(_mm512_set1_epi32(pair));
}

// Writes 32 numbers as f16, of every four the first, the third, the second and the fourth.
inline void StoreHalves(__m512 first, __m512 second, std::uint16_t* to) {
  const __m512i order =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const __m512i halves =
      _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtps_ph(first, kNearest)),
                         _mm512_cvtps_ph(second, kNearest), 1);
  _mm512_storeu_si512(to, _mm512_shuffle_epi8(halves, order));
}

// Writes a row in the form of `Format` and returns what its numbers are multiples of.
template <class Format>
inline float StoreQuery(const float* row, int head_dim, float max, std::uint16_t* to) {
  const __m512 factor = _mm512_set1_ps(max > kTiny ? kTop<Format> / max : 0.0F);
  for (int c = 0; c < head_dim; c += 32) {
    // A head size that is an odd number of 16s: what lies behind the row is not used.
    StoreHalves(_mm512_mul_ps(_mm512_loadu_ps(row + c), factor),
                _mm512_mul_ps(_mm512_loadu_ps(row + c + 16), factor), to + c);
  }
  return max / kTop<Format> * Format::kFactor;
}

// AttentionKernels::prepare_queries
void PrepareQueries(const QueryTile& queries) {
  Bytes::PrepareQueries(queries);
  for (int v = 0; v < queries.vectors; ++v) {
    const float* row = queries.rows + v * kRowStride;
    __m512 highest = _mm512_setzero_ps();
    __mmask16 infinite = 0;
    for (int c = 0; c < queries.head_dim; c += 16) {
      const __m512 channels = _mm512_loadu_ps(row + c);
      constexpr int kNanOrInfinite = 0x99;
      infinite |= _mm512_fpclass_ps_mask(channels, kNanOrInfinite);
      highest = _mm512_max_ps(highest, _mm512_abs_ps(channels));
    }
    const float max = infinite != 0 ? __builtin_nanf("") : _mm512_reduce_max_ps(highest);
    const HalfQueries& halves = queries.halves;
    std::uint16_t* to = halves.halves + 2 * v * kMaxHeadDim;
    float* scales = halves.scales + 2 * v;
    scales[E4m3::kForm] =
        StoreQuery<E4m3>(row, queries.head_dim, max, to + E4m3::kForm * kMaxHeadDim);
    scales[E5m2::kForm] =
        StoreQuery<E5m2>(row, queries.head_dim, max, to + E5m2::kForm * kMaxHeadDim);
  }
}

// Sums of kVectors vectors beside kWidth lines.
template <int kVectors, int kWidth>
using HalfSums = __m512h[kVectors][kWidth];

template <int kVectors, int kWidth>
[[gnu::always_inline]] inline void Clear(HalfSums<kVectors, kWidth>& sums) {
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 4
    for (int i = 0; i < kWidth; ++i) sums[v][i] = _mm512_setzero_ph();
  }
}

// Adds the codes of `lines` at kOdd, kOdd + 2 of every four.
template <class Format, int kOdd, int kVectors, int kWidth>
[[gnu::always_inline]] inline void AddPairs(const std::byte* const (&lines)[kWidth],
                                            const std::uint16_t* factors, int stride,
                                            HalfSums<kVectors, kWidth>& sums) {
  __m512h data[kWidth];
#pragma GCC unroll 4
  for (int i = 0; i < kWidth; ++i) {
    data[i] = Format::template Load<kOdd>(_mm512_loadu_si512(lines[i]));
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const __m512h pair = BroadcastPair(factors + v * stride + 2 * kOdd);
#pragma GCC unroll 4
    for (int i = 0; i < kWidth; ++i) sums[v][i] = _mm512_fmadd_ph(data[i], pair, sums[v][i]);
  }
}

// One of the two f16 of a lane in the bits of f32, whose exponents count from another number.
template <int kOdd>
inline __m512 Widen(__m512h sums) {
  const __m512i shift = _mm512_set1_epi32(kOdd == 0 ? 1 << 13 : 1 << 29);
  const __m512i kept = _mm512_set1_epi32(static_cast<int>(0x8FFFE000U));
  return _mm512_castsi512_ps(
      _mm512_and_si512(_mm512_madd_epi16(_mm512_castph_si512(sums), shift), kept));
}

// The two sums of every lane, added up.
[[gnu::always_inline]] inline __m512 Total(__m512h sums) {
  const __m512 factor = _mm512_set1_ps(0x1p112F);
  return _mm512_fmadd_ps(Widen<1>(sums), factor, _mm512_mul_ps(Widen<0>(sums), factor));
}

// The channels of a dot product that one run of sums takes.
struct ChannelRun {
  int first;
  int end;
  bool last;
};

// Adds a run of channels to the scores of kVectors query vectors from `first` on against pages
// [page, page + kPages); the first run starts them, the last one scales them.
template <class Format, int kVectors, int kPages>
inline void DotRun(const QueryTile& queries, int first, const BatchPlanes& keys, int page,
                   const ChannelRun& run, float* scores) {
  HalfSums<kVectors, kPages> sums;
  Clear<kVectors, kPages>(sums);
  const std::uint16_t* halves = queries.halves.halves + (2 * first + Format::kForm) * kMaxHeadDim;
  for (int channel = run.first; channel < run.end; channel += 4) {
    const std::byte* lines[kPages];
#pragma GCC unroll 4
    for (int p = 0; p < kPages; ++p) {
      lines[p] = keys.now[page + p] + channel * 16;
      Bytes::Prefetch(keys.ahead[page + p] + channel * 16);
    }
    AddPairs<Format, 0, kVectors, kPages>(lines, halves + channel, 2 * kMaxHeadDim, sums);
    AddPairs<Format, 1, kVectors, kPages>(lines, halves + channel, 2 * kMaxHeadDim, sums);
  }
#pragma GCC unroll 4
  for (int p = 0; p < kPages; ++p) {
    const __m512 scales = Bytes::LoadScales(keys.scales[page + p]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      float* to = scores + v * kBatchTokens + (page + p) * kPageTokens;
      __m512 total = Total(sums[v][p]);
      if (run.first > 0) total = _mm512_add_ps(total, _mm512_loadu_ps(to));
      if (run.last) {
        const float scale = queries.halves.scales[2 * (first + v) + Format::kForm];
        total = _mm512_mul_ps(total, _mm512_mul_ps(scales, _mm512_set1_ps(scale)));
      }
      _mm512_storeu_ps(to, total);
    }
  }
}

template <class Format, int kVectors, int kPages>
inline void DotBlock(const QueryTile& queries, int first, const BatchPlanes& keys, int page,
                     float* scores) {
  for (int channel = 0; channel < queries.head_dim; channel += kRunChannels) {
    const int rest = queries.head_dim - channel;
    const bool last = rest <= kRunChannels;
    const ChannelRun run = {channel, channel + (last ? rest : kRunChannels), last};
    DotRun<Format, kVectors, kPages>(queries, first, keys, page, run, scores);
  }
}

// AttentionKernels::dot
template <class Format>
void DotHalves(const QueryTile& queries, const BatchPlanes& keys, float* scores) {
  constexpr int kScaleLine = 64;  // directly before the plane
  for (int p = 0; p < keys.pages; ++p) Bytes::Prefetch(keys.ahead[p] - kScaleLine);
  for (int first = 0; first < queries.vectors;) {
    const int count = NextBlock<Fp16>(queries.vectors - first);
    WithVectorCount<kMostVectors>(count, [&]<int kVectors>() {
      float* rows = scores + first * kBatchTokens;
      if (keys.pages == kBatchPages) {
        DotBlock<Format, kVectors, kBatchPages>(queries, first, keys, 0, rows);
        return;
      }
      for (int page = 0; page < keys.pages; ++page) {
        DotBlock<Format, kVectors, 1>(queries, first, keys, page, rows);
      }
    });
    first += count;
  }
}

// The weights of some vectors, times the scales of V.
struct HalfWeights {
  alignas(64) std::uint16_t halves[kMostVectors][kBatchTokens];
  float scales[kMostVectors];
};

template <class Format>
inline void RoundWeights(const float* weights, int vectors, const BatchPlanes& values,
                         HalfWeights* rounded) {
  __m512 scales[kBatchPages];
#pragma GCC unroll 4
  for (int page = 0; page < kBatchPages; ++page) {
    const auto valid = static_cast<__mmask16>(page < values.pages ? 0xFFFF : 0);
    scales[page] = _mm512_maskz_mov_ps(valid, Bytes::LoadScales(values.scales[page]));
  }
  for (int v = 0; v < vectors; ++v) {
    __m512 scaled[kBatchPages];
#pragma GCC unroll 4
    for (int page = 0; page < kBatchPages; ++page) {
      // Pages that the batch does not have may hold anything as their weights.
      const auto valid = static_cast<__mmask16>(page < values.pages ? 0xFFFF : 0);
      scaled[page] = _mm512_maskz_mul_ps(
          valid, scales[page], _mm512_loadu_ps(weights + v * kBatchTokens + page * kPageTokens));
    }
    const float max = _mm512_reduce_max_ps(
        _mm512_max_ps(_mm512_max_ps(scaled[0], scaled[1]), _mm512_max_ps(scaled[2], scaled[3])));
    const __m512 factor = _mm512_set1_ps(max > kTiny ? kTop<Format> / max : 0.0F);
    std::uint16_t* to = rounded->halves[v];
    StoreHalves(_mm512_mul_ps(scaled[0], factor), _mm512_mul_ps(scaled[1], factor), to);
    StoreHalves(_mm512_mul_ps(scaled[2], factor), _mm512_mul_ps(scaled[3], factor), to + 32);
    rounded->scales[v] = max / kTop<Format> * Format::kFactor;
  }
}

// out[v] += the weighted sum of a batch, channels [channel, + 16 kVecs).
template <class Format, int kVectors, int kVecs>
inline void WeighBlock(const HalfWeights& weights, const BatchPlanes& values, int head_dim,
                       int channel, float* out) {
  HalfSums<kVectors, kVecs> sums;
  Clear<kVectors, kVecs>(sums);
  for (int page = 0; page < values.pages; ++page) {
    for (int group = 0; group < kPageTokens / 4; ++group) {
      const int offset = (group * head_dim + channel) * 4;
      const std::byte* lines[kVecs];
#pragma GCC unroll 4
      for (int i = 0; i < kVecs; ++i) {
        lines[i] = values.now[page] + offset + i * 64;
        Bytes::Prefetch(values.ahead[page] + offset + i * 64);
      }
      const std::uint16_t* four = weights.halves[0] + page * kPageTokens + group * 4;
      AddPairs<Format, 0, kVectors, kVecs>(lines, four, kBatchTokens, sums);
      AddPairs<Format, 1, kVectors, kVecs>(lines, four, kBatchTokens, sums);
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const __m512 scale = _mm512_set1_ps(weights.scales[v]);
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) {
      float* to = out + v * kRowStride + channel + i * 16;
      _mm512_storeu_ps(to, _mm512_fmadd_ps(Total(sums[v][i]), scale, _mm512_loadu_ps(to)));
    }
  }
}

// AttentionKernels::weigh
template <class Format, FormatId kId>
void WeighHalves(const WeightedSum& sum, const BatchPlanes& values) {
  if (sum.tokens < values.pages * kPageTokens) {
    // Slots that were never written may hold inf, which no weight of 0 takes out of a product.
    Avx512Kernels()->weigh[static_cast<int>(kId)](sum, values);
    return;
  }
  HalfWeights weights;
  for (int first = 0; first < sum.vectors;) {
    const int count = NextBlock<Fp16>(sum.vectors - first);
    RoundWeights<Format>(sum.weights + first * kBatchTokens, count, values, &weights);
    float* out = sum.out + first * kRowStride;
    WithVectorCount<kMostVectors>(count, [&]<int kVectors>() {
      constexpr int kVecs = 4;
      int channel = 0;
      for (; channel + kVecs * 16 <= sum.head_dim; channel += kVecs * 16) {
        WeighBlock<Format, kVectors, kVecs>(weights, values, sum.head_dim, channel, out);
      }
      for (; channel < sum.head_dim; channel += 16) {
        WeighBlock<Format, kVectors, 1>(weights, values, sum.head_dim, channel, out);
      }
    });
    first += count;
  }
}

template <class Format, FormatId kId>
void SetKernels(AttentionKernels* kernels) {
  constexpr auto kIndex = static_cast<int>(kId);
  kernels->dot[kIndex] = DotHalves<Format>;
  kernels->weigh[kIndex] = WeighHalves<Format, kId>;
  kernels->tiles_stay_packed[kIndex] = true;
}

AttentionKernels MakeFp16Kernels() {
  AttentionKernels kernels = *Avx512VnniKernels();
  kernels.isa = "avx512fp16";
  Bytes::Install(&kernels);
  kernels.prepare_queries = PrepareQueries;
  SetKernels<E4m3, FormatId::kFp8E4m3>(&kernels);
  SetKernels<E5m2, FormatId::kFp8E5m2>(&kernels);
  return kernels;
}

}  // namespace

const AttentionKernels* Avx512Fp16Kernels() {
  static const AttentionKernels kernels = MakeFp16Kernels();
  return &kernels;
}

}  // namespace swiftkv

#else

namespace swiftkv {
const AttentionKernels* Avx512Fp16Kernels() { return nullptr; }
}  // namespace swiftkv

#endif
