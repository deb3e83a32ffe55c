// SPDX-License-Identifier: Apache-2.0
// Multiplies unpacked weights with the byte dot products of AVX-512 VNNI.
//
// A tile is some rows beside one or two strips: for every four inputs a register of codes a strip,
// and four codes of each row spread over a register. Its integer sums and its float sums live in
// registers. Two execution ports are the limit: 12 operations for 512 products, of which 8 are dot
// products.
#include "model/byte_kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__) && defined(__AVX512VNNI__)

#include <immintrin.h>

#include "model/byte_pack_avx512vnni.h"
#include "model/byte_unpack_avx512vnni.h"

namespace swiftkv {
namespace {

// Rows of a tile: as many sums as hide the latency of a dot product, twice over, and leave
// registers for the operands.
constexpr int kTileRows[kMostStrips + 1] = {0, 8, 6};

using FourCodes [[gnu::may_alias]] = std::int32_t;

// sum += codes . four, in place. GCC 12 copies the sums round the builtin and spills them.
[[gnu::always_inline]] inline void AddProducts(__m512i& sum, __m512i codes, __m512i four) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes), "v"(four));
}
[[gnu::always_inline]] inline void AddProductsFrom(__m512i& sum, __m512i codes,
                                                   const FourCodes* four) {
  __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(codes), "m"(*four));
}

template <int kRows, int kStrips>
using Dots = __m512i[kRows][kStrips];
template <int kRows, int kStrips>
using Sums = __m512[kRows][kStrips];

// A tile's view of one block.
template <int kRows, int kStrips>
struct TileBlock {
  const UnpackedBlock* weights[kStrips];
  const ByteBlock* rows[kRows];
};

// dots += products of inputs [4 first, 4 last).
template <int kFirst, int kLast, int kRows, int kStrips>
[[gnu::always_inline]] inline void AddInputs(const TileBlock<kRows, kStrips>& block,
                                             Dots<kRows, kStrips>& dots) {
#pragma GCC unroll 8
  for (int four = kFirst; four < kLast; ++four) {
    __m512i codes[kStrips];
#pragma GCC unroll 2
    for (int s = 0; s < kStrips; ++s) {
      codes[s] = _mm512_load_si512(block.weights[s]->codes[four]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const auto* const from = reinterpret_cast<const FourCodes*>(block.rows[r]->codes + 4 * four);
      if constexpr (kStrips == 1) {
        AddProductsFrom(dots[r][0], codes[0], from);
      } else {
        const __m512i spread = _mm512_set1_epi32(*from);
#pragma GCC unroll 2
        for (int s = 0; s < kStrips; ++s) AddProducts(dots[r][s], codes[s], spread);
      }
    }
  }
}

// sums += dots (scale a.scale), with the scales of the weights at `kScales`.
template <auto kScales, int kRows, int kStrips>
[[gnu::always_inline]] inline void AddScaled(const TileBlock<kRows, kStrips>& block,
                                             const Dots<kRows, kStrips>& dots,
                                             Sums<kRows, kStrips>& sums) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m512 row_scale = _mm512_set1_ps(block.rows[r]->scale);
#pragma GCC unroll 2
    for (int s = 0; s < kStrips; ++s) {
      const __m512 factor = _mm512_mul_ps(_mm512_load_ps(block.weights[s]->*kScales), row_scale);
      sums[r][s] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r][s]), factor, sums[r][s]);
    }
  }
}

template <ByteForm kForm, int kRows, int kStrips>
[[gnu::always_inline]] inline void AddBlock(const TileBlock<kRows, kStrips>& block,
                                            __m512i zero_shift, Sums<kRows, kStrips>& sums) {
  constexpr auto kScales = &UnpackedBlock::scales;
  constexpr auto kMins = &UnpackedBlock::mins;
  constexpr int kFours = kByteBlock / 4;
  Dots<kRows, kStrips> dots;
  const auto start = [&](const auto& minus_codes) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512i zero =
          _mm512_sllv_epi32(_mm512_set1_epi32(minus_codes(*block.rows[r])), zero_shift);
#pragma GCC unroll 2
      for (int s = 0; s < kStrips; ++s) dots[r][s] = zero;
    }
  };
  if constexpr (kForm == ByteForm::kHalves) {
    start([](const ByteBlock& row) { return row.minus_half; });
    AddInputs<0, kFours / 2, kRows, kStrips>(block, dots);
    AddScaled<kScales, kRows, kStrips>(block, dots, sums);
    start([](const ByteBlock& row) { return row.minus_codes - row.minus_half; });
    AddInputs<kFours / 2, kFours, kRows, kStrips>(block, dots);
    AddScaled<kMins, kRows, kStrips>(block, dots, sums);
  } else if constexpr (kForm == ByteForm::kZero) {
    start([](const ByteBlock& row) { return row.minus_codes; });
    AddInputs<0, kFours, kRows, kStrips>(block, dots);
    AddScaled<kScales, kRows, kStrips>(block, dots, sums);
  } else {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int s = 0; s < kStrips; ++s) dots[r][s] = _mm512_setzero_si512();
    }
    AddInputs<0, kFours, kRows, kStrips>(block, dots);
    AddScaled<kScales, kRows, kStrips>(block, dots, sums);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512 sum = _mm512_set1_ps(block.rows[r]->sum);
#pragma GCC unroll 2
      for (int s = 0; s < kStrips; ++s) {
        sums[r][s] = _mm512_fnmadd_ps(_mm512_load_ps(block.weights[s]->mins), sum, sums[r][s]);
      }
    }
  }
}

// Spreads the lines to prefetch over all blocks of all tiles.
class Prefetcher {
 public:
  Prefetcher(const StripProduct& product, std::int64_t tiles) {
    for (int s = 0; s < product.strips; ++s) {
      if (product.later[s].lines > 0) runs_[num_runs_++] = product.later[s];
    }
    const std::int64_t lines =
        std::int64_t{runs_[0].lines} + runs_[1].lines;  // of equal length, or none
    const std::int64_t blocks = tiles * product.blocks;
    lines_a_block_ = static_cast<int>((lines + blocks - 1) / blocks);
  }

  [[gnu::always_inline]] void Block() {
    for (int i = lines_a_block_; i > 0; --i) {
      AheadLines& run = runs_[at_];
      _mm_prefetch(reinterpret_cast<const char*>(run.first), _MM_HINT_T1);
      run.first += run.stride;
      if (--run.lines == 0 && ++at_ == num_runs_) lines_a_block_ = i = 0;
    }
  }

 private:
  AheadLines runs_[kMostStrips] = {};
  int num_runs_ = 0;
  int at_ = 0;
  int lines_a_block_ = 0;
};

template <ByteForm kForm, int kRows, int kStrips>
void MultiplyTile(const StripProduct& product, const ByteBlock* rows, float* out,
                  Prefetcher& prefetcher) {
  const __m512i zero_shift = _mm512_set1_epi32(product.zero_shift);
  Sums<kRows, kStrips> sums;
  __mmask16 lanes[kStrips];
  TileBlock<kRows, kStrips> block;
#pragma GCC unroll 2
  for (int s = 0; s < kStrips; ++s) {
    lanes[s] = static_cast<__mmask16>(product.lanes >> (s * kStripOutputs));
    block.weights[s] = product.weights + s * product.blocks;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    block.rows[r] = rows + r * product.row_blocks;
#pragma GCC unroll 2
    for (int s = 0; s < kStrips; ++s) {
      const auto loaded = static_cast<__mmask16>(product.accumulate ? lanes[s] : 0);
      sums[r][s] = _mm512_maskz_loadu_ps(loaded, out + r * product.out_stride + s * kStripOutputs);
    }
  }
  for (int left = product.blocks; left > 0; --left) {
    prefetcher.Block();
    AddBlock<kForm, kRows, kStrips>(block, zero_shift, sums);
#pragma GCC unroll 2
    for (int s = 0; s < kStrips; ++s) ++block.weights[s];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) ++block.rows[r];
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int s = 0; s < kStrips; ++s) {
      _mm512_mask_storeu_ps(out + r * product.out_stride + s * kStripOutputs, lanes[s], sums[r][s]);
    }
  }
}

// Calls MultiplyTile for `rows` in [1, kMost].
template <ByteForm kForm, int kMost, int kStrips>
void MultiplySomeRows(const StripProduct& product, std::int64_t rows, const ByteBlock* from,
                      float* out, Prefetcher& prefetcher) {
  if constexpr (kMost > 1) {
    if (rows < kMost) {
      return MultiplySomeRows<kForm, kMost - 1, kStrips>(product, rows, from, out, prefetcher);
    }
  }
  MultiplyTile<kForm, kMost, kStrips>(product, from, out, prefetcher);
}

template <ByteForm kForm, int kStrips>
void MultiplyStrips(const StripProduct& product) {
  constexpr int kMost = kTileRows[kStrips];
  // Tiles of about equal size: 8 rows are 4 and 4, not 6 and 2.
  const std::int64_t tiles = (product.num_rows + kMost - 1) / kMost;
  Prefetcher prefetcher(product, tiles);
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const std::int64_t first = product.num_rows * tile / tiles;
    const std::int64_t last = product.num_rows * (tile + 1) / tiles;
    MultiplySomeRows<kForm, kMost, kStrips>(product, last - first,
                                            product.rows + first * product.row_blocks,
                                            product.out + first * product.out_stride, prefetcher);
  }
}

// ByteKernels::multiply
template <ByteForm kForm>
void Multiply(const StripProduct& product) {
  if (product.strips == 1) {
    MultiplyStrips<kForm, 1>(product);
  } else {
    MultiplyStrips<kForm, 2>(product);
  }
}

constexpr ByteKernels kKernels = {
    .isa = "avx512vnni",
    .pack = avx512vnni::Pack,
    .unpack = {avx512vnni::UnpackQ4_0, avx512vnni::UnpackQ4_1, avx512vnni::UnpackQ8_0,
               avx512vnni::UnpackQ4_K, avx512vnni::UnpackQ5_K, avx512vnni::UnpackQ6_K,
               avx512vnni::UnpackQ5_0, avx512vnni::UnpackQ5_1, avx512vnni::UnpackIq4Nl,
               avx512vnni::UnpackIq4Xs},
    .multiply = {Multiply<ByteForm::kMins>, Multiply<ByteForm::kZero>, Multiply<ByteForm::kHalves>},
};

}  // namespace

const ByteKernels* Avx512VnniByteKernels() { return &kKernels; }

}  // namespace swiftkv

#else

namespace swiftkv {
const ByteKernels* Avx512VnniByteKernels() { return nullptr; }
}  // namespace swiftkv

#endif
