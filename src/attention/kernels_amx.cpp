// SPDX-License-Identifier: Apache-2.0
// Multiplies tiles of many query vectors in AMX registers; everything else is as in
// kernels_avx512vnni.cpp.
//
// Instructions are written out, with the memory that they read or write: GCC 12's own intrinsics
// name 8 of the 64 bytes of a configuration and nothing of a tile, so that stores may be dropped.
// The registers belong to the thread, and whoever else computes on it (matrix products of the
// model) may rely on its own configuration from call to call: it is put back.
#include "attention/tile_kernels.h"

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AVX512F__)

#include <immintrin.h>

#include "attention/tile_products.h"

namespace swiftkv {
namespace {

// What ldtilecfg reads (Intel SDM, volume 1, 18.3).
struct alignas(64) TileConfiguration {
  std::uint8_t palette;
  std::uint8_t start_row;
  std::uint8_t reserved[14];
  std::uint16_t bytes_per_row[16];
  std::uint8_t rows[16];
};
static_assert(sizeof(TileConfiguration) == 64);

constexpr TileConfiguration FullTiles() {
  TileConfiguration tiles{};
  tiles.palette = 1;
  for (int t = 0; t < 8; ++t) {
    tiles.bytes_per_row[t] = 64;
    tiles.rows[t] = 16;
  }
  return tiles;
}

constexpr TileConfiguration kFullTiles = FullTiles();

thread_local TileConfiguration t_before;  // of the thread, while its registers are ours

inline __m512i RoundToBf16(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
  return _mm512_and_si512(rounded, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U)));
}

inline __m512 Rest(__m512 x, __m512i high) { return _mm512_sub_ps(x, _mm512_castsi512_ps(high)); }

inline __m512i Join(__m512i even, __m512i odd) {
  return _mm512_or_si512(odd, _mm512_srli_epi32(even, 16));
}

inline __m512 LoadScales(const std::uint16_t* scales) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales)));
}

inline void StoreRow(__m512i bf16, std::uint16_t* row) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(row),
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(bf16, 16)));
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
    const __m512i even_high = RoundToBf16(e);
    const __m512i odd_high = RoundToBf16(o);
    _mm512_storeu_si512(high, Join(even_high, odd_high));
    if (low == nullptr) return;
    _mm512_storeu_si512(low, Join(RoundToBf16(Rest(e, even_high)), RoundToBf16(Rest(o, odd_high))));
  }
  static void SplitRow(const float* row, int count, const std::uint16_t* scales,
                       std::uint16_t* high, std::uint16_t* low) {
    const auto valid = static_cast<__mmask16>((1U << count) - 1);
    __m512 x = _mm512_maskz_loadu_ps(valid, row);
    if (scales != nullptr) x = _mm512_maskz_mul_ps(valid, x, LoadScales(scales));
    const __m512i upper = RoundToBf16(x);
    StoreRow(upper, high);
    if (low != nullptr) StoreRow(RoundToBf16(Rest(x, upper)), low);
  }
  static void Scale(float* row, const std::uint16_t* scales) {
    _mm512_storeu_ps(row, _mm512_mul_ps(_mm512_loadu_ps(row), LoadScales(scales)));
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
  static const AttentionKernels kKernels = WithTiles(*Avx512VnniKernels());
  return &kKernels;
}

}  // namespace swiftkv

#else

namespace swiftkv {
const AttentionKernels* AmxKernels() { return nullptr; }
}  // namespace swiftkv

#endif
