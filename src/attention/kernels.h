// SPDX-License-Identifier: Apache-2.0
// Lists the kernels that the cpu backend is made of, as functions on raw pointers, one table per
// instruction set.
//
// Kernels work on batches of up to four pages (64 tokens), so that a softmax update and its branch
// are paid once in 64 tokens. They know nothing of runs, sequences or threads, allocate nothing and
// keep no state. Slots of a page that were never written may hold NaN patterns: a score of such a
// slot may come out NaN and is replaced by AdjustScores; a value of such a slot is never read into
// a sum.
#pragma once

#include <cstddef>
#include <cstdint>

#include "swiftkv/page_codec.h"

namespace swiftkv {

inline constexpr int kBatchPages = 4;
inline constexpr int kBatchTokens = kBatchPages * kPageTokens;
inline constexpr int kMaxHeadDim = 256;
// Floats between two rows of queries or sums of the few-rows kernels: a constant, so that addresses
// need no register, and not a multiple of 4 KiB.
inline constexpr int kRowStride = kMaxHeadDim + 16;
inline constexpr int kMaxTileVectors = 96;   // query vectors (rows x heads of the group) in a tile
inline constexpr int kNumKernelFormats = 7;  // in the order of FormatId

// One plane (K or V) of the pages of a batch.
struct BatchPlanes {
  const std::byte* now[kBatchPages];
  const std::byte* ahead[kBatchPages];       // to prefetch meanwhile; any address will do
  const std::uint16_t* scales[kBatchPages];  // [16] f16; null where the format has none
  int pages;                                 // [1, 4]
  int bytes;                                 // of a plane
};

// A score in units of ln 2 times this is the score itself. Kernels see scaled queries, scores,
// maxima and log-sum-exps in units of ln 2, where a weight is a power of two.
inline constexpr float kLn2 = 0.693147181F;
inline constexpr float kLog2E = 1.44269504F;  // 1 / ln 2

// Replaces raw scores by what the softmax takes: softcap first, then -inf for invisible slots.
struct ScoreAdjustment {
  float* scores;  // [vectors, 64]
  int vectors;
  int pages;
  float softcap;                      // 0: none
  const std::int32_t* positions;      // [64]; null where every slot is visible to every vector
  const std::int32_t* first_visible;  // [vectors]: the lowest and the highest position that the
  const std::int32_t* last_visible;   // vector sees
};

// One step of the online softmax over the slots of a batch: scores become weights 2^(s - max).
struct SoftmaxStep {
  float* scores;  // [vectors, 64]
  int vectors;
  int pages;
  float* max;      // [vectors]; -inf at first
  float* sums;     // [vectors, 16]: the sum of weights, kept as lanes
  float* out;      // [vectors, out_stride]: rescaled where a maximum rose
  int out_stride;  // floats
  int head_dim;
};

// C[m, 16 n] = A[m, k] B[k, 16 n], or C += where `accumulate`. Row-major, strides in floats.
struct MatrixProduct {
  const float* a;
  const float* b;
  float* c;
  int a_stride;
  int b_stride;
  int c_stride;
  int m;
  int n;  // vectors of 16 columns
  int k;
  bool accumulate;
  const BatchPlanes* planes;  // whose `ahead` is prefetched in even steps
};

// Query vectors as 16-bit integers in two signed bytes, for the byte dot-product instructions:
// query = scale (256 high + low).
struct ByteQueries {
  std::int8_t* limbs;  // [vectors, 2, kMaxHeadDim]: high, then low
  float* scales;       // [vectors]
  std::int32_t* sums;  // [vectors, 2]: sums over the channels of 256 high + low, and of high
};

// Query vectors as f16, for kernels that multiply in it, in two forms: one for the codes of E4M3
// and one for those of E5M2, which are far larger numbers.
struct HalfQueries {
  std::uint16_t* halves;  // [vectors, 2, kMaxHeadDim]: of every four channels 0, 2, 1 and 3
  float* scales;          // [vectors, 2]
};

// The query vectors of a tile.
struct QueryTile {
  const float* rows;  // [vectors, kRowStride]
  ByteQueries bytes;  // these two are what prepare_queries wrote, where kernels have it
  HalfQueries halves;
  int vectors;
  int head_dim;
};

// out[v] += sum over the first `tokens` slots of a batch of weights[v, slot] V[slot].
struct WeightedSum {
  const float* weights;  // [vectors, 64]
  float* out;            // [vectors, kRowStride]
  int vectors;
  int head_dim;
  int tokens;
};

struct TileKernels;  // attention/tile_kernels.h

struct AttentionKernels {
  const char* isa;  // its name (base/cpu_features.h)

  // Fills `bytes` and `halves` from `rows`, as far as kernels of the set read them; null where none
  // does.
  void (*prepare_queries)(const QueryTile& queries);
  // scores[v, slot] = dot(queries[v], K[slot]); scores [vectors, 64].
  void (*dot[kNumKernelFormats])(const QueryTile& queries, const BatchPlanes& keys, float* scores);
  void (*weigh[kNumKernelFormats])(const WeightedSum& sum, const BatchPlanes& values);
  // Whether dot and weigh also serve many vectors better than unpacking does.
  bool tiles_stay_packed[kNumKernelFormats];

  void (*adjust_scores)(const ScoreAdjustment& adjustment);
  void (*softmax_step)(const SoftmaxStep& step);

  // Writes the keys of a batch as [head_dim, 64] f32 and its values as [64, head_dim] f32.
  void (*unpack_keys[kNumKernelFormats])(const BatchPlanes& keys, int head_dim, float* unpacked);
  void (*unpack_values[kNumKernelFormats])(const BatchPlanes& values, int head_dim,
                                           float* unpacked);
  void (*multiply)(const MatrixProduct& product);

  // sums[slot] += sum over vectors of 2^(scores[v, slot] - lse[v]); a vector whose lse is -inf
  // adds nothing.
  void (*tally)(const float* scores, const float* lse, int vectors, int pages, float* sums);

  // Products of tiles of many vectors, in place of `multiply` and of packed tiles; null where the
  // set has no matrix unit.
  const TileKernels* tiles = nullptr;
};

// Each returns null where this build does not have the instruction set. To call a kernel the CPU
// must have it too.
const AttentionKernels* PortableKernels();
const AttentionKernels* Avx2Kernels();    // AVX2, FMA, F16C
const AttentionKernels* Avx512Kernels();  // AVX-512 F, BW, DQ, VL
const AttentionKernels* Avx512VnniKernels();
const AttentionKernels* Avx512Fp16Kernels();

}  // namespace swiftkv
