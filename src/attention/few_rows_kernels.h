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

// Factors of the slots of a page: scales times one kFactor.
template <class S, class Reader>
inline typename S::Vec PageScales(const std::uint16_t* scales) {
  const auto halves = S::LoadHalves(reinterpret_cast<const std::byte*>(scales));
  if constexpr (Reader::kFactor == 1) return halves;
  return S::Mul(halves, S::Set(Reader::kFactor));
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
  for (int group = 0; group < head_dim / Reader::kKeyChannels; ++group) {
#pragma GCC unroll 4
    for (int p = 0; p < kPages; ++p) {
      Vec channels[Reader::kKeyChannels];
      Reader::LoadKeys(keys.now[page + p] + offset, channels);
      S::Prefetch(keys.ahead[page + p] + offset);
      if constexpr (Reader::kKeyBytes > 64) S::Prefetch(keys.ahead[page + p] + offset + 64);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const float* query = queries + v * kRowStride;
#pragma GCC unroll 8
        for (int i = 0; i < Reader::kKeyChannels; ++i) {
          const float factor = query[KeyChannel<Reader>(group, i, head_dim)];
          sums[v][p] = S::Fma(S::Set(factor), channels[i], sums[v][p]);
        }
      }
    }
    offset += Reader::kKeyBytes;
  }
#pragma GCC unroll 4
  for (int p = 0; p < kPages; ++p) {
    if constexpr (Reader::kScaled) {
      const Vec scales = PageScales<S, Reader>(keys.scales[page + p]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[v][p] = S::Mul(sums[v][p], scales);
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      S::Store(scores + v * kBatchTokens + (page + p) * kPageTokens, sums[v][p]);
    }
  }
}

template <class S, class Reader, int kVectors>
inline void DotVectors(const float* queries, int head_dim, const BatchPlanes& keys, float* scores) {
  constexpr int kPages = BlockWidth<S, kVectors>();
  alignas(64) float scaled[Reader::kFactor == 1 ? 1 : kVectors * kRowStride];
  if constexpr (Reader::kFactor != 1) {
    for (int v = 0; v < kVectors; ++v) {
      for (int c = v * kRowStride; c < v * kRowStride + head_dim; c += 16) {
        S::Store(scaled + c, S::Mul(S::Load(queries + c), S::Set(Reader::kFactor)));
      }
    }
    queries = scaled;
  }
  constexpr int kScaleLine = 64;  // directly before the plane
  if constexpr (Reader::kScaled) {
    for (int p = 0; p < keys.pages; ++p) S::Prefetch(keys.ahead[p] - kScaleLine);
  }
  int page = 0;
  for (; page + kPages <= keys.pages; page += kPages) {
    DotBlock<S, Reader, kVectors, kPages>(queries, head_dim, keys, page, scores);
  }
  for (; page < keys.pages; ++page) {
    DotBlock<S, Reader, kVectors, 1>(queries, head_dim, keys, page, scores);
  }
}

// Adds one load of V, of whose tokens those from `count` on in the page were never written.
template <class S, class Reader, int kVectors>
inline void WeighTokens(const typename S::Vec (&values)[Reader::kValueTokens], int group, int count,
                        const float* weights, typename S::Vec* sums, int sums_stride) {
#pragma GCC unroll 8
  for (int i = 0; i < Reader::kValueTokens; ++i) {
    const int token = ValueToken<Reader>(group, i);
    if (token >= count) continue;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      typename S::Vec& sum = sums[v * sums_stride];
      sum = S::Fma(S::Set(weights[v * kBatchTokens + token]), values[i], sum);
    }
  }
}

// out[v] += the weighted sum of the first `tokens` values of a batch, channels [channel, + 16
// kVecs).
template <class S, class Reader, int kVectors, int kVecs>
inline void WeighBlock(const float* weights, int head_dim, const BatchPlanes& values, int tokens,
                       int channel, float* out) {
  using Vec = typename S::Vec;
  Vec sums[kVectors][kVecs];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) {
      sums[v][i] =
          Reader::kFactor == 1 ? S::Load(out + v * kRowStride + channel + i * 16) : S::Set(0.0F);
    }
  }
  for (int first = 0, page = 0; first < tokens; first += kPageTokens, ++page) {
    const int count = tokens - first;
    for (int group = 0; group < kPageTokens / Reader::kValueTokens; ++group) {
      if (ValueToken<Reader>(group, 0) >= count) break;
      Reader::template PrefetchValues<kVecs>(values.ahead[page], group, channel, head_dim);
#pragma GCC unroll 4
      for (int i = 0; i < kVecs; ++i) {
        Vec loaded[Reader::kValueTokens];
        Reader::LoadValues(values.now[page], group, channel + i * 16, head_dim, loaded);
        if (count >= kPageTokens) {
          WeighTokens<S, Reader, kVectors>(loaded, group, kPageTokens, weights + first, &sums[0][i],
                                           kVecs);
        } else {
          WeighTokens<S, Reader, kVectors>(loaded, group, count, weights + first, &sums[0][i],
                                           kVecs);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) {
      float* to = out + v * kRowStride + channel + i * 16;
      if constexpr (Reader::kFactor != 1) {
        sums[v][i] = S::Fma(sums[v][i], S::Set(Reader::kFactor), S::Load(to));
      }
      S::Store(to, sums[v][i]);
    }
  }
}

// Multiplies weights by the scales of their slots; slots from `tokens` on are never read. Where
// values come in small units (kFactor), weights below 2^-41 become 0, so that no product is
// subnormal, which processors take a slow path for: adding and taking away a larger number leaves
// no bits below.
template <class S, class Reader>
inline void ScaleWeights(const float* weights, int vectors, const BatchPlanes& values,
                         float* scaled) {
  for (int page = 0; page < values.pages; ++page) {
    const typename S::Vec scales = PageScales<S, Reader>(values.scales[page]);
    for (int v = 0; v < vectors; ++v) {
      const int slot = v * kBatchTokens + page * kPageTokens;
      typename S::Vec weight = S::Load(weights + slot);
      if constexpr (Reader::kFactor != 1) {
        const typename S::Vec coarse = S::Set(0x1.8p-17F);
        weight = S::Sub(S::Add(weight, coarse), coarse);
      }
      S::Store(scaled + slot, S::Mul(weight, scales));
    }
  }
}

template <class S, class Reader, int kVectors>
inline void WeighVectors(const float* weights, int head_dim, const BatchPlanes& values, int tokens,
                         float* out) {
  constexpr int kVecs = BlockWidth<S, kVectors>();
  alignas(64) float scaled[kVectors * kBatchTokens];
  if constexpr (Reader::kScaled) {
    ScaleWeights<S, Reader>(weights, kVectors, values, scaled);
    weights = scaled;
  }
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
void Dot(const QueryTile& queries, const BatchPlanes& keys, float* scores) {
  const float* rows = queries.rows;
  for (int vectors = queries.vectors; vectors > 0;) {
    const int count = NextBlock<S>(vectors);
    WithVectorCount<S::kMaxVectors>(count, [&]<int kVectors>() {
      DotVectors<S, Reader, kVectors>(rows, queries.head_dim, keys, scores);
    });
    rows += count * kRowStride;
    scores += count * kBatchTokens;
    vectors -= count;
  }
}

// AttentionKernels::weigh
template <class S, class Reader>
void Weigh(const WeightedSum& sum, const BatchPlanes& values) {
  const float* weights = sum.weights;
  float* out = sum.out;
  for (int vectors = sum.vectors; vectors > 0;) {
    const int count = NextBlock<S>(vectors);
    WithVectorCount<S::kMaxVectors>(count, [&]<int kVectors>() {
      WeighVectors<S, Reader, kVectors>(weights, sum.head_dim, values, sum.tokens, out);
    });
    weights += count * kBatchTokens;
    out += count * kRowStride;
    vectors -= count;
  }
}

}  // namespace swiftkv
