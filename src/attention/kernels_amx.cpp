// SPDX-License-Identifier: Apache-2.0
// Multiplies tiles of many query vectors in AMX registers; everything else is as in
// kernels_avx512fp16.cpp, or in kernels_avx512vnni.cpp where the CPU has no f16 arithmetic.
//
// Instructions are written out, with the memory that they read or write: GCC 12's own intrinsics
// name 8 of the 64 bytes of a configuration and nothing of a tile, so that stores may be dropped.
// The registers belong to the thread, and whoever else computes on it (matrix products of the
// model) may rely on its own configuration from call to call: it is put back.
#include "attention/tile_kernels.h"

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AVX512BF16__)

#include <immintrin.h>

#include "attention/tile_configuration.h"
#include "attention/tile_products.h"
#include "base/cpu_features.h"

namespace swiftkv {
namespace {

thread_local TileConfiguration t_before;  // of the thread, while its registers are ours

// 16 pairs (even, odd), each number rounded to bf16.
inline __m512i RoundPairs(__m512 even, __m512 odd) {
  const __m512i interleave =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                       21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const auto halves = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd, even));
  return _mm512_permutexvar_epi16(interleave, halves);
}

inline __m512 EvenOf(__m512i pairs) { return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)); }

inline __m512 OddOf(__m512i pairs) {
  return _mm512_castsi512_ps(
      _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
}

inline __m256i Round(__m512 x) { return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)); }

inline __m512 Widen(__m256i row) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(row), 16));
}

inline void StoreRow(__m256i row, std::uint16_t* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), row);
}

inline __m512 LoadScales(const std::uint16_t* scales) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales)));
}

struct Amx {
  static void Configure() {
    __asm__ volatile("sttilecfg %0" : "=m"(t_before));
    __asm__ volatile("ldtilecfg %0" : : "m"(kFullTiles));
  }
  static void Restore() {
    if (t_before.palette == 0) {
      __asm__ volatile("tilerelease");
    } else {
      __asm__ volatile("ldtilecfg %0" : : "m"(t_before));
    }
  }
  template <int kTile>
  static void Zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  static void Load(const void* p, std::size_t stride) {
    __asm__ volatile("tileloadd (%1,%2,1), %%tmm%c0"
                     :
                     : "i"(kTile), "r"(p), "r"(stride)
                     : "memory");
  }
  template <int kTile>
  static void Store(void* p, std::size_t stride) {
    __asm__ volatile("tilestored %%tmm%c0, (%1,%2,1)"
                     :
                     : "i"(kTile), "r"(p), "r"(stride)
                     : "memory");
  }
  template <int kSums, int kLeft, int kRight>
  static void Dot() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
                     :
                     : "i"(kSums), "i"(kLeft), "i"(kRight));
  }

  static void SplitPairs(const float* even, const float* odd, std::uint32_t* high,
                         std::uint32_t* low) {
    const __m512 e = _mm512_loadu_ps(even);
    const __m512 o = _mm512_loadu_ps(odd);
    const __m512i pairs = RoundPairs(e, o);
    _mm512_storeu_si512(high, pairs);
    if (low == nullptr) return;
    _mm512_storeu_si512(
        low, RoundPairs(_mm512_sub_ps(e, EvenOf(pairs)), _mm512_sub_ps(o, OddOf(pairs))));
  }
  static void SplitColumns(const TileColumns& columns, std::uint16_t* high, std::uint16_t* low) {
    const auto valid = static_cast<__mmask16>((1U << columns.count) - 1);
    __m512 scales = _mm512_set1_ps(1.0F);
    if (columns.scales != nullptr) scales = LoadScales(columns.scales);
    const float* row = columns.from;
    for (int r = 0; r < columns.rows; ++r) {
      const __m512 x = _mm512_maskz_mul_ps(valid, _mm512_loadu_ps(row), scales);
      const __m256i upper = Round(x);
      StoreRow(upper, high);
      if (low != nullptr) {
        StoreRow(Round(_mm512_sub_ps(x, Widen(upper))), low);
        low += columns.to_stride;
      }
      high += columns.to_stride;
      row += columns.from_stride;
    }
  }
  static void Scale(float* rows, int vectors, const std::uint16_t* scales) {
    const __m512 factors = LoadScales(scales);
    for (int v = 0; v < vectors; ++v, rows += kBatchTokens) {
      _mm512_storeu_ps(rows, _mm512_mul_ps(_mm512_loadu_ps(rows), factors));
    }
  }
  static void Prefetch(const std::byte* p) {
    _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
  }
};

constexpr TileKernels kTiles = MakeTileKernels<Amx>();

AttentionKernels WithTiles(const AttentionKernels& others) {
  AttentionKernels kernels = others;
  kernels.isa = "amx";
  kernels.tiles = &kTiles;
  return kernels;
}

}  // namespace

const AttentionKernels* AmxKernels() {
  const bool has_f16 = Runs(HostCpu(), Isa::kAvx512Fp16) && Avx512Fp16Kernels() != nullptr;
  static const AttentionKernels kKernels =
      WithTiles(has_f16 ? *Avx512Fp16Kernels() : *Avx512VnniKernels());
  return &kKernels;
}

}  // namespace swiftkv

#else

namespace swiftkv {
const AttentionKernels* AmxKernels() { return nullptr; }
}  // namespace swiftkv

#endif
