// SPDX-License-Identifier: Apache-2.0
// Reads groups of channels of a K plane, or groups of tokens of a V plane, as f32 vectors, for each
// format.
//
// A reader hides where a format's bytes lie (docs/page_format.md) from the kernels:
//     f32, f16   K [d][16]             V [16][d]
//     bf16       K [d/2][16][2]        V [8][d][2]
//     fp8, int8  K [d/4][16][4]        V [4][d][4]
//     int4       K [d/8][16][4] x 2    V [2][d][4] x 2    nibbles: channels c and c + d/2, tokens t
//                                                         and t + 8
// What it gives, times kFactor^2 and the slot's scale where the format has scales, is the value.
// The factor is applied in two steps, before and after a sum, so that nothing leaves f32's range.
//
// Members of a reader:
//     kScaled, kFactor
//     kKeyChannels                     channels of 16 tokens that one load of K gives
//     kKeyBytes                        bytes of that load
//     kKeyHalves                       2 where the second half of the channels lies d/2 further
//     LoadKeys(p, vecs[kKeyChannels])
//     kValueTokens                     tokens of 16 channels that one load of V gives
//     kValueHalves                     2 where the second half of the tokens lies 8 further
//     LoadValues(plane, group, channel, head_dim, vecs[kValueTokens])
//     PrefetchValues<kVecs>(plane, group, channel, head_dim)
// Included by the kernels_<isa>.cpp files only; see vector_math.h on templates over `S`.
#pragma once

#include <cstddef>

#include "swiftkv/page_codec.h"

namespace swiftkv {

constexpr float PowerOfTwo(int exponent) {
  return exponent == 0 ? 1 : 2 * PowerOfTwo(exponent - 1);
}

// Channel `i` of load `group` of K.
template <class Reader>
constexpr int KeyChannel(int group, int i, int head_dim) {
  constexpr int kNear = Reader::kKeyChannels / Reader::kKeyHalves;
  return group * kNear + i % kNear + (i / kNear) * (head_dim / 2);
}

// Token `i` of load `group` of V.
template <class Reader>
constexpr int ValueToken(int group, int i) {
  constexpr int kNear = Reader::kValueTokens / Reader::kValueHalves;
  return group * kNear + i % kNear + (i / kNear) * (kPageTokens / 2);
}

template <class S>
struct F32Reader {
  using Vec = typename S::Vec;
  static constexpr bool kScaled = false;
  static constexpr float kFactor = 1;
  static constexpr int kKeyChannels = 2;
  static constexpr int kKeyBytes = 128;
  static constexpr int kKeyHalves = 1;
  static constexpr int kValueTokens = 2;
  static constexpr int kValueHalves = 1;

  static void LoadKeys(const std::byte* p, Vec (&vecs)[2]) {
    const auto* floats = reinterpret_cast<const float*>(p);
    vecs[0] = S::Load(floats);
    vecs[1] = S::Load(floats + 16);
  }
  static void LoadValues(const std::byte* plane, int group, int channel, int head_dim,
                         Vec (&vecs)[2]) {
    const auto* row = reinterpret_cast<const float*>(plane) + 2 * group * head_dim + channel;
    vecs[0] = S::Load(row);
    vecs[1] = S::Load(row + head_dim);
  }
  template <int kVecs>
  static void PrefetchValues(const std::byte* plane, int group, int channel, int head_dim) {
    const std::byte* row = plane + (2 * group * head_dim + channel) * 4;
    for (int i = 0; i < kVecs; ++i) {
      S::Prefetch(row + i * 64);
      S::Prefetch(row + head_dim * 4 + i * 64);
    }
  }
};

template <class S>
struct F16Reader {
  using Vec = typename S::Vec;
  static constexpr bool kScaled = false;
  static constexpr float kFactor = 1;
  static constexpr int kKeyChannels = 2;
  static constexpr int kKeyBytes = 64;
  static constexpr int kKeyHalves = 1;
  static constexpr int kValueTokens = 2;
  static constexpr int kValueHalves = 1;

  static void LoadKeys(const std::byte* p, Vec (&vecs)[2]) {
    vecs[0] = S::LoadHalves(p);
    vecs[1] = S::LoadHalves(p + 32);
  }
  static void LoadValues(const std::byte* plane, int group, int channel, int head_dim,
                         Vec (&vecs)[2]) {
    const std::byte* row = plane + (2 * group * head_dim + channel) * 2;
    vecs[0] = S::LoadHalves(row);
    vecs[1] = S::LoadHalves(row + head_dim * 2);
  }
  template <int kVecs>
  static void PrefetchValues(const std::byte* plane, int group, int channel, int head_dim) {
    const std::byte* row = plane + (2 * group * head_dim + channel) * 2;
    for (int i = 0; i < kVecs; i += 2) {
      S::Prefetch(row + i * 32);
      S::Prefetch(row + head_dim * 2 + i * 32);
    }
  }
};

// Formats whose lines are 16 groups of four bytes: of 16 tokens in K, of 16 channels in V.
// kNumbers of a group come from one load; with kHalves of 2 those of the upper nibbles lie half the
// channels, or 8 tokens, further. `Reader` adds LoadKeys.
template <class S, class Reader, int kNumbers, int kHalves = 1>
struct GroupReader {
  using Vec = typename S::Vec;
  static constexpr int kKeyChannels = kNumbers;
  static constexpr int kKeyBytes = 64;
  static constexpr int kKeyHalves = kHalves;
  static constexpr int kValueTokens = kNumbers;
  static constexpr int kValueHalves = kHalves;

  static void LoadValues(const std::byte* plane, int group, int channel, int head_dim,
                         Vec (&vecs)[kNumbers]) {
    Reader::LoadKeys(plane + (group * head_dim + channel) * 4, vecs);
  }
  template <int kVecs>
  static void PrefetchValues(const std::byte* plane, int group, int channel, int head_dim) {
    const std::byte* row = plane + (group * head_dim + channel) * 4;
    for (int i = 0; i < kVecs; ++i) S::Prefetch(row + i * 64);
  }
};

template <class S>
struct Bf16Reader : GroupReader<S, Bf16Reader<S>, 2> {
  using Vec = typename S::Vec;
  static constexpr bool kScaled = false;
  static constexpr float kFactor = 1;

  static void LoadKeys(const std::byte* p, Vec (&vecs)[2]) { S::LoadBrains(p, &vecs[0], &vecs[1]); }
};

// 8-bit floats moved into the bits of f32, whose exponents count from another number: kFactor twice
// makes up for it.
template <class S, int kMantissa, int kExponentBias>
struct Fp8Reader : GroupReader<S, Fp8Reader<S, kMantissa, kExponentBias>, 4> {
  using Vec = typename S::Vec;
  static constexpr bool kScaled = true;
  static constexpr float kFactor = PowerOfTwo((127 - kExponentBias) / 2);

  static void LoadKeys(const std::byte* p, Vec (&vecs)[4]) {
    S::template LoadFp8<kMantissa>(p, vecs);
  }
};
template <class S>
using E4m3Reader = Fp8Reader<S, 3, 7>;
template <class S>
using E5m2Reader = Fp8Reader<S, 2, 15>;

template <class S>
struct Int8Reader : GroupReader<S, Int8Reader<S>, 4> {
  using Vec = typename S::Vec;
  static constexpr bool kScaled = true;
  static constexpr float kFactor = 1;

  static void LoadKeys(const std::byte* p, Vec (&vecs)[4]) {
    S::SpreadBytes(S::LoadBiased(p), vecs);
  }
};

template <class S>
struct Int4Reader : GroupReader<S, Int4Reader<S>, 8, 2> {
  using Vec = typename S::Vec;
  static constexpr bool kScaled = true;
  static constexpr float kFactor = 1;

  static void LoadKeys(const std::byte* p, Vec (&vecs)[8]) {
    typename S::Bytes low;
    typename S::Bytes high;
    S::LoadLevels(p, &low, &high);
    S::SpreadBytes(low, vecs);
    S::SpreadBytes(high, vecs + 4);
  }
};

}  // namespace swiftkv
