// SPDX-License-Identifier: Apache-2.0
// Declares matrix products of tiles of many query vectors on a unit of matrix registers (AMX).
//
// The unit multiplies bf16 and adds in f32. An f32 number is split into two bf16, x = high + low up
// to 2^-16 of x; a product of two split numbers is high high + high low + low high. What lossy
// formats hold is exact in one bf16 (codes and levels of at most 8 bits; their scales are applied
// in f32). Queries and weights may be rounded to one bf16 beside them: one product instead of
// three, at an error of up to 2^-8 a term.
#pragma once

#include <cstdint>

#include "attention/kernels.h"

namespace swiftkv {

// A thread's operands, in the order in which the unit takes them. Index 0 is high, 1 is low.
struct alignas(64) TileBuffers {
  std::uint16_t queries[2][kMaxTileVectors * kMaxHeadDim];  // [vectors, head_dim up to 32s]
  std::uint16_t weights[2][kMaxTileVectors * kBatchTokens];
  // Keys [head_dim / 2 up to 16s, 64, 2], then values [32, head_dim, 2] of a batch.
  std::uint32_t pages[2][kMaxHeadDim / 2 * kBatchTokens];
};

// A batch of pages beside the query vectors of a tile.
struct TileBatch {
  const BatchPlanes* planes;  // scales, where the format has them, and what to prefetch
  const float* unpacked;      // keys or values, as unpack_keys or unpack_values writes them, but
                              // without scales
  int vectors;                // [1, kMaxTileVectors]
  int head_dim;
  int tokens;          // valid slots
  bool split_vectors;  // queries or weights in two bf16
  bool split_pages;    // keys or values too
};

struct TileKernels {
  // Takes and gives back the calling thread's matrix registers. All else lies between the two; what
  // others had configured on the thread is as it was afterwards.
  void (*acquire)();
  void (*release)();
  // Fills buffers->queries from rows [vectors, kRowStride].
  void (*load_queries)(const float* rows, int vectors, int head_dim, TileBuffers* buffers);
  // scores[v, slot] = dot(queries[v], K[slot]), [vectors up to 16s, 64].
  void (*score)(const TileBatch& batch, float* scores, TileBuffers* buffers);
  // out[v] += sum over the valid slots of weights[v, slot] V[slot]; weights [vectors, 64], out
  // [vectors up to 16s, kRowStride]: what lies in rows behind `vectors` is overwritten.
  void (*add_values)(const TileBatch& batch, const float* weights, float* out,
                     TileBuffers* buffers);
};

// Null where this build does not have the instruction set.
const AttentionKernels* AmxKernels();  // AMX tiles, bf16 and int8, beside AVX-512 BF16 and VNNI

}  // namespace swiftkv
