// SPDX-License-Identifier: Apache-2.0
// Multiplies tiles of query vectors with batches of pages on a unit of matrix registers.
//
// Included by the file of a unit only; see vector_math.h on templates over `U`. Registers hold 16
// rows of 64 bytes. A unit `U` has:
//     Configure(), Restore()           registers 0 to 7 as above; what was configured before
//     Zero<t>()
//     Load<t>(p, stride), Store<t>     rows of 64 bytes, `stride` bytes apart
//     Dot<c, a, b>()                   c[i][j] += sum over k in [0, 32) of a[i][k] b[k/2][j][k%2],
//                                      a and b bf16, c f32
//     SplitPairs(even, odd, high, low) 16 pairs of f32 as pairs of bf16; low may be null
//     SplitColumns(columns, high, low) 16 f32 of many rows as bf16; low may be null
//     Scale(rows, vectors, scales)     16 f32 of rows kBatchTokens apart times f16
//     Prefetch(p)                      into the first cache
// Registers 0 to 3 hold sums, 4 and 5 rows of the left operand, 6 and 7 columns of the right one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/row_tile_kernels.h"
#include "attention/tile_kernels.h"

namespace swiftkv {

inline constexpr int kTileSide = 16;   // rows of a register, and f32 in a row
inline constexpr int kTileDepth = 32;  // bf16 in a row: what one Dot sums over

constexpr int RoundUp(int value, int unit) { return (value + unit - 1) / unit * unit; }

// 16 columns of a matrix of f32 that becomes one of bf16.
struct TileColumns {
  const float* from;  // [rows, from_stride]
  int from_stride;
  int to_stride;  // bf16
  int rows;
  int count;                    // columns from here on become zeros, whatever they hold
  const std::uint16_t* scales;  // f16, one a column; null: 1
};

// C[rows, columns] = or += A B. Index 0 of an operand is its high part, 1 its low part.
struct SplitProduct {
  const std::uint16_t* a[2];  // [rows, a_stride]
  const std::uint32_t* b[2];  // [depth / 2, b_stride] pairs
  float* c;
  int a_stride;
  int b_stride;
  int c_stride;
  int rows;     // of registers
  int columns;  // of registers
  int steps;    // kTileDepth each
  bool split_a;
  bool split_b;
  bool accumulate;
};

template <class U, int kRows>
inline void LoadLeft(const SplitProduct& product, int part, int row, int step) {
  const std::uint16_t* a = product.a[part] + row * kTileSide * product.a_stride + step * kTileDepth;
  U::template Load<4>(a, product.a_stride * 2);
  if constexpr (kRows > 1) {
    U::template Load<5>(a + kTileSide * product.a_stride, product.a_stride * 2);
  }
}

template <class U, int kColumns>
inline void LoadRight(const SplitProduct& product, int part, int column, int step) {
  const std::uint32_t* b =
      product.b[part] + step * kTileSide * product.b_stride + column * kTileSide;
  U::template Load<6>(b, product.b_stride * 4);
  if constexpr (kColumns > 1) U::template Load<7>(b + kTileSide, product.b_stride * 4);
}

template <class U, int kRows, int kColumns>
inline void DotAll() {
  U::template Dot<0, 4, 6>();
  if constexpr (kColumns > 1) U::template Dot<1, 4, 7>();
  if constexpr (kRows > 1) U::template Dot<2, 5, 6>();
  if constexpr (kRows > 1 && kColumns > 1) U::template Dot<3, 5, 7>();
}

// Calls move<register>(address of its part of C) for a block's sums.
template <int kRows, int kColumns, class Move>
inline void ForEachSum(float* c, int c_stride, const Move& move) {
  move.template operator()<0>(c);
  if constexpr (kColumns > 1) move.template operator()<1>(c + kTileSide);
  float* const below = c + kTileSide * c_stride;
  if constexpr (kRows > 1) move.template operator()<2>(below);
  if constexpr (kRows > 1 && kColumns > 1) move.template operator()<3>(below + kTileSide);
}

// A block of kRows x kColumns registers of C.
template <class U, int kRows, int kColumns>
inline void MultiplyTiles(const SplitProduct& product, int row, int column) {
  float* const c = product.c + row * kTileSide * product.c_stride + column * kTileSide;
  const int stride = product.c_stride * 4;
  if (product.accumulate) {
    ForEachSum<kRows, kColumns>(c, product.c_stride, [&]<int kTile>(const float* p) {
      U::template Load<kTile>(p, stride);
    });
  } else {
    ForEachSum<kRows, kColumns>(c, product.c_stride,
                                [&]<int kTile>(float*) { U::template Zero<kTile>(); });
  }
  for (int step = 0; step < product.steps; ++step) {
    LoadLeft<U, kRows>(product, 0, row, step);
    if (product.split_b) {
      LoadRight<U, kColumns>(product, 1, column, step);
      DotAll<U, kRows, kColumns>();
    }
    LoadRight<U, kColumns>(product, 0, column, step);
    DotAll<U, kRows, kColumns>();
    if (product.split_a) {
      LoadLeft<U, kRows>(product, 1, row, step);
      DotAll<U, kRows, kColumns>();
    }
  }
  ForEachSum<kRows, kColumns>(c, product.c_stride,
                              [&]<int kTile>(float* p) { U::template Store<kTile>(p, stride); });
}

// Two registers by two wherever there are that many.
template <class U>
inline void MultiplySplit(const SplitProduct& product, const BatchPlanes& planes) {
  const int blocks = (product.rows + 1) / 2 * ((product.columns + 1) / 2);
  SpreadPrefetch<U> prefetch(planes, blocks);
  for (int row = 0; row < product.rows; row += 2) {
    const bool two_rows = row + 1 < product.rows;
    for (int column = 0; column < product.columns; column += 2) {
      const bool two_columns = column + 1 < product.columns;
      prefetch.Step();
      if (two_rows && two_columns) {
        MultiplyTiles<U, 2, 2>(product, row, column);
      } else if (two_rows) {
        MultiplyTiles<U, 2, 1>(product, row, column);
      } else if (two_columns) {
        MultiplyTiles<U, 1, 2>(product, row, column);
      } else {
        MultiplyTiles<U, 1, 1>(product, row, column);
      }
    }
  }
}

// TileKernels::load_queries
template <class U>
void LoadTileQueries(const float* rows, int vectors, int head_dim, TileBuffers* buffers) {
  const int stride = RoundUp(head_dim, kTileDepth);
  for (int channel = 0; channel < stride; channel += kTileSide) {
    U::SplitColumns({.from = rows + channel,
                     .from_stride = kRowStride,
                     .to_stride = stride,
                     .rows = vectors,
                     .count = channel < head_dim ? kTileSide : 0,
                     .scales = nullptr},
                    buffers->queries[0] + channel, buffers->queries[1] + channel);
  }
}

// TileKernels::score
template <class U>
void ScoreTile(const TileBatch& batch, float* scores, TileBuffers* buffers) {
  alignas(64) static constexpr float kZeros[kBatchTokens] = {};
  const BatchPlanes& planes = *batch.planes;
  const int depth = RoundUp(batch.head_dim, kTileDepth);
  for (int channel = 0; channel < depth; channel += 2) {
    const float* even = channel < batch.head_dim ? batch.unpacked + channel * kBatchTokens : kZeros;
    const float* odd = channel < batch.head_dim ? even + kBatchTokens : kZeros;
    for (int slot = 0; slot < planes.pages * kPageTokens; slot += kTileSide) {
      const int at = channel / 2 * kBatchTokens + slot;
      U::SplitPairs(even + slot, odd + slot, buffers->pages[0] + at,
                    batch.split_pages ? buffers->pages[1] + at : nullptr);
    }
  }
  MultiplySplit<U>({.a = {buffers->queries[0], buffers->queries[1]},
                    .b = {buffers->pages[0], buffers->pages[1]},
                    .c = scores,
                    .a_stride = depth,
                    .b_stride = kBatchTokens,
                    .c_stride = kBatchTokens,
                    .rows = RoundUp(batch.vectors, kTileSide) / kTileSide,
                    .columns = planes.pages,
                    .steps = depth / kTileDepth,
                    .split_a = batch.split_vectors,
                    .split_b = batch.split_pages,
                    .accumulate = false},
                   planes);
  if (planes.scales[0] == nullptr) return;
  for (int page = 0; page < planes.pages; ++page) {
    U::Scale(scores + page * kPageTokens, batch.vectors, planes.scales[page]);
  }
}

// Writes the values of a batch as pairs of tokens, and zeros for slots that are not valid.
template <class U>
inline void PairValues(const TileBatch& batch, int depth, TileBuffers* buffers) {
  alignas(64) static constexpr float kZeros[kMaxHeadDim] = {};
  for (int token = 0; token < depth; token += 2) {
    const float* row = batch.unpacked + token * batch.head_dim;
    const float* even = token < batch.tokens ? row : kZeros;
    const float* odd = token + 1 < batch.tokens ? row + batch.head_dim : kZeros;
    for (int channel = 0; channel < batch.head_dim; channel += kTileSide) {
      const int at = token / 2 * batch.head_dim + channel;
      U::SplitPairs(even + channel, odd + channel, buffers->pages[0] + at,
                    batch.split_pages ? buffers->pages[1] + at : nullptr);
    }
  }
}

// TileKernels::add_values
template <class U>
void AddTileValues(const TileBatch& batch, const float* weights, float* out, TileBuffers* buffers) {
  const BatchPlanes& planes = *batch.planes;
  const int depth = RoundUp(batch.tokens, kTileDepth);
  PairValues<U>(batch, depth, buffers);
  for (int slot = 0; slot < depth; slot += kTileSide) {
    const int left = batch.tokens - slot;
    U::SplitColumns({.from = weights + slot,
                     .from_stride = kBatchTokens,
                     .to_stride = kBatchTokens,
                     .rows = batch.vectors,
                     .count = left < 0           ? 0
                              : left < kTileSide ? left
                                                 : kTileSide,
                     .scales = left > 0 ? planes.scales[slot / kPageTokens] : nullptr},
                    buffers->weights[0] + slot,
                    batch.split_vectors ? buffers->weights[1] + slot : nullptr);
  }
  MultiplySplit<U>({.a = {buffers->weights[0], buffers->weights[1]},
                    .b = {buffers->pages[0], buffers->pages[1]},
                    .c = out,
                    .a_stride = kBatchTokens,
                    .b_stride = batch.head_dim,
                    .c_stride = kRowStride,
                    .rows = RoundUp(batch.vectors, kTileSide) / kTileSide,
                    .columns = batch.head_dim / kTileSide,
                    .steps = depth / kTileDepth,
                    .split_a = batch.split_vectors,
                    .split_b = batch.split_pages,
                    .accumulate = true},
                   planes);
}

template <class U>
constexpr TileKernels MakeTileKernels() {
  return {.acquire = U::Configure,
          .release = U::Restore,
          .load_queries = LoadTileQueries<U>,
          .score = ScoreTile<U>,
          .add_values = AddTileValues<U>};
}

}  // namespace swiftkv
