// SPDX-License-Identifier: Apache-2.0
// Computes scores and weighted sums straight from a page's stored format, for a few query vectors.
//
// The vectors of one kv head are taken together, so every byte of a page is read and converted
// once per block of vectors; a block keeps its sums in registers. Decoding is a stream of bytes:
// the matching line of the next batch is prefetched with every line read, so that loads of
// scattered pages never wait. Included by the kernels_<isa>.cpp files only; see vector_math.h on
// templates over `S`.
#pragma once

#include <cstddef>

#include "attention/kernels.h"
#include "attention/plane_readers.h"

namespace swiftkv {

// How many pages (or vectors of channels) are worked on at once beside `kVectors` query vectors so
// that the sums still fit the registers.
template <class S, int kVectors>
constexpr int BlockWidth() {
  if (kVectors * 4 <= S::kAccumulators) return 4;
  return kVectors * 2 <= S::kAccumulators ? 2 : 1;
}

// Scores of kVectors query vectors against pages [page, page + kPages).
template <class S, class Reader, int kVectors, int kPages>
inline void DotBlock(const float* queries, int head_dim, const BatchPlanes& keys, int page,
                     float* scores) {
  using Vec = typename S::Vec;
  Vec sums[kVectors][kPages];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 4
    for (int p = 0; p < kPages; ++p) sums[v][p] = S::Set(0.0F);
  }
  std::size_t offset = 0;
  for (int channel = 0; channel < head_dim; channel += 2) {
#pragma GCC unroll 4
    for (int p = 0; p < kPages; ++p) {
      const VecPair<S> pair = Reader::Keys(keys.now[page + p] + offset);
      S::Prefetch(keys.ahead[page + p] + offset);
      if constexpr (Reader::kKeyPairBytes > 64) S::Prefetch(keys.ahead[page + p] + offset + 64);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const float* query = queries + v * kRowStride + channel;
        sums[v][p] = S::Fma(S::Set(query[0]), pair.even, sums[v][p]);
        sums[v][p] = S::Fma(S::Set(query[1]), pair.odd, sums[v][p]);
      }
    }
    offset += Reader::kKeyPairBytes;
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 4
    for (int p = 0; p < kPages; ++p) {
      S::Store(scores + v * kBatchTokens + (page + p) * kPageTokens, sums[v][p]);
    }
  }
}

template <class S, class Reader, int kVectors>
inline void DotVectors(const float* queries, int head_dim, const BatchPlanes& keys, float* scores) {
  constexpr int kPages = BlockWidth<S, kVectors>();
  int page = 0;
  for (; page + kPages <= keys.pages; page += kPages) {
    DotBlock<S, Reader, kVectors, kPages>(queries, head_dim, keys, page, scores);
  }
  for (; page < keys.pages; ++page) {
    DotBlock<S, Reader, kVectors, 1>(queries, head_dim, keys, page, scores);
  }
}

// out[v] += the weighted sum of one page's first `tokens` values, channels [channel, + 16 kVecs).
template <class S, class Reader, int kVectors, int kVecs>
inline void WeighBlock(const float* weights, int head_dim, const BatchPlanes& values, int tokens,
                       int channel, float* out) {
  using Vec = typename S::Vec;
  Vec sums[kVectors][kVecs];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) sums[v][i] = S::Load(out + v * kRowStride + channel + i * 16);
  }
  for (int first = 0, page = 0; first < tokens; first += kPageTokens, ++page) {
    const int count = tokens - first < kPageTokens ? tokens - first : kPageTokens;
    const float* page_weights = weights + first;
    for (int pair = 0; pair < count / 2; ++pair) {
      Reader::template PrefetchValues<kVecs>(values.ahead[page], pair, channel, head_dim);
#pragma GCC unroll 4
      for (int i = 0; i < kVecs; ++i) {
        const VecPair<S> value = Reader::Values(values.now[page], pair, channel + i * 16, head_dim);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          const float* weight = page_weights + v * kBatchTokens + 2 * pair;
          sums[v][i] = S::Fma(S::Set(weight[0]), value.even, sums[v][i]);
          sums[v][i] = S::Fma(S::Set(weight[1]), value.odd, sums[v][i]);
        }
      }
    }
    if (count % 2 == 0) continue;
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) {  // the last token's partner was never written
      const VecPair<S> value =
          Reader::Values(values.now[page], count / 2, channel + i * 16, head_dim);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const float* weight = page_weights + v * kBatchTokens + count - 1;
        sums[v][i] = S::Fma(S::Set(weight[0]), value.even, sums[v][i]);
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) S::Store(out + v * kRowStride + channel + i * 16, sums[v][i]);
  }
}

template <class S, class Reader, int kVectors>
inline void WeighVectors(const float* weights, int head_dim, const BatchPlanes& values, int tokens,
                         float* out) {
  constexpr int kVecs = BlockWidth<S, kVectors>();
  int channel = 0;
  for (; channel + kVecs * 16 <= head_dim; channel += kVecs * 16) {
    WeighBlock<S, Reader, kVectors, kVecs>(weights, head_dim, values, tokens, channel, out);
  }
  for (; channel < head_dim; channel += 16) {
    WeighBlock<S, Reader, kVectors, 1>(weights, head_dim, values, tokens, channel, out);
  }
}

// Calls run<n>() for n = `vectors` in [1, kMost].
template <int kMost, class Run>
inline void WithVectorCount(int vectors, const Run& run) {
  if constexpr (kMost > 1) {
    if (vectors < kMost) return WithVectorCount<kMost - 1>(vectors, run);
  }
  run.template operator()<kMost>();
}

// Vectors of the next block: all blocks are about as large, 9 vectors are 5 and 4, not 8 and 1.
template <class S>
inline int NextBlock(int vectors) {
  const int blocks = (vectors + S::kMaxVectors - 1) / S::kMaxVectors;
  return (vectors + blocks - 1) / blocks;
}

// AttentionKernels::dot
template <class S, class Reader>
void Dot(const float* queries, int vectors, int head_dim, const BatchPlanes& keys, float* scores) {
  while (vectors > 0) {
    const int count = NextBlock<S>(vectors);
    WithVectorCount<S::kMaxVectors>(count, [&]<int kVectors>() {
      DotVectors<S, Reader, kVectors>(queries, head_dim, keys, scores);
    });
    queries += count * kRowStride;
    scores += count * kBatchTokens;
    vectors -= count;
  }
}

// AttentionKernels::weigh
template <class S, class Reader>
void Weigh(const float* weights, int vectors, int head_dim, const BatchPlanes& values, int tokens,
           float* out) {
  while (vectors > 0) {
    const int count = NextBlock<S>(vectors);
    WithVectorCount<S::kMaxVectors>(count, [&]<int kVectors>() {
      WeighVectors<S, Reader, kVectors>(weights, head_dim, values, tokens, out);
    });
    weights += count * kBatchTokens;
    out += count * kRowStride;
    vectors -= count;
  }
}

}  // namespace swiftkv
