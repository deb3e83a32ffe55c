// SPDX-License-Identifier: Apache-2.0
// Unpacks batches of pages to f32 and multiplies small matrices, for tiles of many query vectors.
//
// A tile has enough vectors that converting a batch once into a buffer of the first caches pays;
// what is left is a matrix product whose block of sums stays in registers. Included by the
// kernels_<isa>.cpp files only; see vector_math.h on templates over `S`.
#pragma once

#include <cstddef>

#include "attention/few_rows_kernels.h"
#include "attention/kernels.h"
#include "attention/plane_readers.h"

namespace swiftkv {

// AttentionKernels::unpack_keys
template <class S, class Reader>
void UnpackKeys(const BatchPlanes& keys, int head_dim, float* unpacked) {
  using Vec = typename S::Vec;
  for (int page = 0; page < keys.pages; ++page) {
    const std::byte* bytes = keys.now[page];
    float* const columns = unpacked + page * kPageTokens;
    Vec scales = S::Set(1.0F);
    if constexpr (Reader::kScaled) scales = PageScales<S, Reader>(keys.scales[page]);
    for (int group = 0; group < head_dim / Reader::kKeyChannels; ++group) {
      Vec channels[Reader::kKeyChannels];
      Reader::LoadKeys(bytes, channels);
      for (int i = 0; i < Reader::kKeyChannels; ++i) {
        if constexpr (Reader::kScaled) channels[i] = S::Mul(channels[i], scales);
        if constexpr (Reader::kFactor != 1) {
          channels[i] = S::Mul(channels[i], S::Set(Reader::kFactor));
        }
        S::Store(columns + KeyChannel<Reader>(group, i, head_dim) * kBatchTokens, channels[i]);
      }
      bytes += Reader::kKeyBytes;
    }
  }
}

// AttentionKernels::unpack_values
template <class S, class Reader>
void UnpackValues(const BatchPlanes& values, int head_dim, float* unpacked) {
  using Vec = typename S::Vec;
  for (int page = 0; page < values.pages; ++page) {
    alignas(64) float scales[kPageTokens];
    if constexpr (Reader::kScaled) S::Store(scales, PageScales<S, Reader>(values.scales[page]));
    float* const rows = unpacked + page * kPageTokens * head_dim;
    for (int group = 0; group < kPageTokens / Reader::kValueTokens; ++group) {
      for (int channel = 0; channel < head_dim; channel += 16) {
        Vec tokens[Reader::kValueTokens];
        Reader::LoadValues(values.now[page], group, channel, head_dim, tokens);
        for (int i = 0; i < Reader::kValueTokens; ++i) {
          const int token = ValueToken<Reader>(group, i);
          if constexpr (Reader::kScaled) tokens[i] = S::Mul(tokens[i], S::Set(scales[token]));
          if constexpr (Reader::kFactor != 1) {
            tokens[i] = S::Mul(tokens[i], S::Set(Reader::kFactor));
          }
          S::Store(rows + token * head_dim + channel, tokens[i]);
        }
      }
    }
  }
}

// A block of kRows rows and kVecs vectors of C.
template <class S, int kRows, int kVecs>
inline void MultiplyBlock(const MatrixProduct& product, const float* a, const float* b, float* c) {
  using Vec = typename S::Vec;
  Vec sums[kRows][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) {
      sums[r][i] = product.accumulate ? S::Load(c + r * product.c_stride + i * 16) : S::Set(0.0F);
    }
  }
  for (int k = 0; k < product.k; ++k) {
    Vec row[kVecs];
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) row[i] = S::Load(b + i * 16);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vec factor = S::Set(a[r * product.a_stride]);
#pragma GCC unroll 4
      for (int i = 0; i < kVecs; ++i) sums[r][i] = S::Fma(factor, row[i], sums[r][i]);
    }
    ++a;
    b += product.b_stride;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) S::Store(c + r * product.c_stride + i * 16, sums[r][i]);
  }
}

// Spreads the prefetch of the next batch over the blocks of a product, so that the few buffers for
// lines in flight never fill up.
template <class S>
class SpreadPrefetch {
 public:
  SpreadPrefetch(const BatchPlanes& planes, int num_blocks)
      : planes_(planes), step_((planes.bytes / kLine + num_blocks - 1) / num_blocks * kLine) {}

  // Called once per block.
  void Step() {
    const int end = at_ + step_ < planes_.bytes ? at_ + step_ : planes_.bytes;
    for (; at_ < end; at_ += kLine) {
      for (const std::byte* plane : planes_.ahead) S::Prefetch(plane + at_);
    }
  }

 private:
  static constexpr int kLine = 64;
  const BatchPlanes& planes_;
  int step_;
  int at_ = 0;
};

// All rows of kVecs vectors of C: blocks of S::kTileRows rows, then what is left.
template <class S, int kVecs, int kRows = S::kTileRows>
inline void MultiplyColumns(const MatrixProduct& product, int vec, SpreadPrefetch<S>* prefetch,
                            int row = 0) {
  for (; row + kRows <= product.m; row += kRows) {
    prefetch->Step();
    MultiplyBlock<S, kRows, kVecs>(product, product.a + row * product.a_stride,
                                   product.b + vec * 16,
                                   product.c + row * product.c_stride + vec * 16);
  }
  if constexpr (kRows > 1) {
    if (row < product.m) MultiplyColumns<S, kVecs, kRows - 1>(product, vec, prefetch, row);
  }
}

// Calls MultiplyColumns for a width in [1, kMost].
template <class S, int kMost>
inline void MultiplyWidth(const MatrixProduct& product, int vec, int width,
                          SpreadPrefetch<S>* prefetch) {
  if constexpr (kMost > 1) {
    if (width < kMost) return MultiplyWidth<S, kMost - 1>(product, vec, width, prefetch);
  }
  MultiplyColumns<S, kMost>(product, vec, prefetch);
}

// AttentionKernels::multiply. Columns are all about as wide: 5 vectors are 3 and 2, not 4 and 1.
template <class S>
void Multiply(const MatrixProduct& product) {
  const int num_columns = (product.n + S::kTileVecs - 1) / S::kTileVecs;
  const int num_blocks = num_columns * ((product.m + S::kTileRows - 1) / S::kTileRows);
  SpreadPrefetch<S> prefetch(*product.planes, num_blocks);
  int vec = 0;
  for (int columns = num_columns; columns > 0; --columns) {
    const int width = (product.n - vec + columns - 1) / columns;
    MultiplyWidth<S, S::kTileVecs>(product, vec, width, &prefetch);
    vec += width;
  }
}

}  // namespace swiftkv
