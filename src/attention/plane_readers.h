// SPDX-License-Identifier: Apache-2.0
// Reads pairs of channels of a K plane, or pairs of tokens of a V plane, as f32 vectors, for each
// format.
//
// A reader hides where a format's bytes lie (docs/page_format.md) from the kernels, which walk all
// planes in pairs because the 16-bit formats interleave by two:
//     f32, f16   K [d][16]         V [16][d]
//     bf16       K [d/2][16][2]    V [8][d][2]
// Included by the kernels_<isa>.cpp files only; see vector_math.h on templates over `S`.
#pragma once

#include <cstddef>

namespace swiftkv {

template <class S>
struct VecPair {
  typename S::Vec even;
  typename S::Vec odd;
};

template <class S>
struct F32Reader {
  static constexpr int kKeyPairBytes = 128;  // two channels of 16 tokens

  static VecPair<S> Keys(const std::byte* pair) {
    const auto* floats = reinterpret_cast<const float*>(pair);
    return {S::Load(floats), S::Load(floats + 16)};
  }
  // Tokens 2 * pair and 2 * pair + 1, channels [channel, channel + 16).
  static VecPair<S> Values(const std::byte* plane, int pair, int channel, int head_dim) {
    const auto* row = reinterpret_cast<const float*>(plane) + 2 * pair * head_dim + channel;
    return {S::Load(row), S::Load(row + head_dim)};
  }
  template <int kVecs>
  static void PrefetchValues(const std::byte* plane, int pair, int channel, int head_dim) {
    const std::byte* row = plane + (2 * pair * head_dim + channel) * 4;
    for (int i = 0; i < kVecs; ++i) {
      S::Prefetch(row + i * 64);
      S::Prefetch(row + head_dim * 4 + i * 64);
    }
  }
};

template <class S>
struct F16Reader {
  static constexpr int kKeyPairBytes = 64;

  static VecPair<S> Keys(const std::byte* pair) {
    return {S::LoadHalves(pair), S::LoadHalves(pair + 32)};
  }
  static VecPair<S> Values(const std::byte* plane, int pair, int channel, int head_dim) {
    const std::byte* row = plane + (2 * pair * head_dim + channel) * 2;
    return {S::LoadHalves(row), S::LoadHalves(row + head_dim * 2)};
  }
  template <int kVecs>
  static void PrefetchValues(const std::byte* plane, int pair, int channel, int head_dim) {
    const std::byte* row = plane + (2 * pair * head_dim + channel) * 2;
    for (int i = 0; i < kVecs; i += 2) {
      S::Prefetch(row + i * 32);
      S::Prefetch(row + head_dim * 2 + i * 32);
    }
  }
};

template <class S>
struct Bf16Reader {
  static constexpr int kKeyPairBytes = 64;

  static VecPair<S> Keys(const std::byte* pair) {
    VecPair<S> result;
    S::LoadBrains(pair, &result.even, &result.odd);
    return result;
  }
  static VecPair<S> Values(const std::byte* plane, int pair, int channel, int head_dim) {
    return Keys(plane + (pair * head_dim + channel) * 4);
  }
  template <int kVecs>
  static void PrefetchValues(const std::byte* plane, int pair, int channel, int head_dim) {
    const std::byte* row = plane + (pair * head_dim + channel) * 4;
    for (int i = 0; i < kVecs; ++i) S::Prefetch(row + i * 64);
  }
};

}  // namespace swiftkv
