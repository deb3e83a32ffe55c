// SPDX-License-Identifier: Apache-2.0
// Computes byte products one number at a time: the oracle of the fast kernels, bit for bit.
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "model/byte_kernels.h"

namespace swiftkv {
namespace {

// Reads the parts of a block of weights.
struct BlockBytes {
  const std::byte* bytes;

  int At(int offset) const { return std::to_integer<int>(bytes[offset]); }
  int SignedAt(int offset) const { return static_cast<std::int8_t>(At(offset)); }
  float HalfAt(int offset) const {
    std::uint16_t half;
    std::memcpy(&half, bytes + offset, sizeof(half));
    return HalfToFloat(half);
  }
};

// 32 inputs of one output.
struct Column {
  UnpackedBlock* block;
  int lane;

  void SetCode(int input, int code) const {
    block->codes[input / 4][lane][input % 4] = static_cast<std::uint8_t>(code);
  }
  void SetFactors(float scale, float min) const {
    block->scales[lane] = scale;
    block->mins[lane] = min;
  }
};

// Each format takes the weights of `part`, one of the blocks of 32 that its own block has.

struct Q40 {
  static void Unpack(const BlockBytes& from, int /*part*/, const Column& to) {
    for (int i = 0; i < kByteBlock; ++i) {
      to.SetCode(i, from.At(q4_0::kCodes + i % 16) >> (i < 16 ? 0 : 4) & 15);
    }
    to.SetFactors(from.HalfAt(q4_0::kScale), 0);
  }
};

struct Q41 {
  static void Unpack(const BlockBytes& from, int /*part*/, const Column& to) {
    for (int i = 0; i < kByteBlock; ++i) {
      to.SetCode(i, from.At(q4_1::kCodes + i % 16) >> (i < 16 ? 0 : 4) & 15);
    }
    to.SetFactors(from.HalfAt(q4_1::kScale), -from.HalfAt(q4_1::kMin));
  }
};

struct Q80 {
  static void Unpack(const BlockBytes& from, int /*part*/, const Column& to) {
    for (int i = 0; i < kByteBlock; ++i) to.SetCode(i, from.SignedAt(q8_0::kCodes + i) + 128);
    to.SetFactors(from.HalfAt(q8_0::kScale), 0);
  }
};

// Factors of a block of Q4_K or Q5_K.
void UnpackKFactors(const BlockBytes& from, int part, const Column& to) {
  const BlockBytes packed{from.bytes + q4_k::kPacked};
  int scale = 0;
  int min = 0;
  if (part < 4) {
    scale = packed.At(part) & 63;
    min = packed.At(part + 4) & 63;
  } else {
    scale = (packed.At(part + 4) & 15) | (packed.At(part - 4) >> 6 << 4);
    min = (packed.At(part + 4) >> 4) | (packed.At(part) >> 6 << 4);
  }
  to.SetFactors(from.HalfAt(q4_k::kScale) * static_cast<float>(scale),
                from.HalfAt(q4_k::kMin) * static_cast<float>(min));
}

struct Q4K {
  static void Unpack(const BlockBytes& from, int part, const Column& to) {
    for (int i = 0; i < kByteBlock; ++i) {
      to.SetCode(i, from.At(q4_k::kCodes + part / 2 * 32 + i) >> part % 2 * 4 & 15);
    }
    UnpackKFactors(from, part, to);
  }
};

struct Q5K {
  static void Unpack(const BlockBytes& from, int part, const Column& to) {
    static_assert(q5_k::kScale == q4_k::kScale && q5_k::kMin == q4_k::kMin &&
                  q5_k::kPacked == q4_k::kPacked);
    for (int i = 0; i < kByteBlock; ++i) {
      const int low = from.At(q5_k::kCodes + part / 2 * 32 + i) >> part % 2 * 4 & 15;
      const int high = from.At(q5_k::kHigh + i) >> part & 1;
      to.SetCode(i, low | high << 4);
    }
    UnpackKFactors(from, part, to);
  }
};

struct Q6K {
  static void Unpack(const BlockBytes& from, int part, const Column& to) {
    const int half = part / 4;
    const int quarter = part % 4;
    for (int i = 0; i < kByteBlock; ++i) {
      const int low =
          from.At(q6_k::kLow + half * 64 + quarter % 2 * 32 + i) >> quarter / 2 * 4 & 15;
      const int high = from.At(q6_k::kHigh + half * 32 + i) >> quarter * 2 & 3;
      to.SetCode(i, low | high << 4);
    }
    const float scale = from.HalfAt(q6_k::kScale);
    to.SetFactors(scale * static_cast<float>(from.SignedAt(q6_k::kScales + 2 * part)),
                  scale * static_cast<float>(from.SignedAt(q6_k::kScales + 2 * part + 1)));
  }
};

struct Q50 {
  static void Unpack(const BlockBytes& from, int /*part*/, const Column& to) {
    for (int i = 0; i < kByteBlock; ++i) {
      const int low = from.At(q5_0::kCodes + i % 16) >> (i < 16 ? 0 : 4) & 15;
      to.SetCode(i, low | (from.At(q5_0::kHigh + i / 8) >> i % 8 & 1) << 4);
    }
    to.SetFactors(from.HalfAt(q5_0::kScale), 0);
  }
};

struct Q51 {
  static void Unpack(const BlockBytes& from, int /*part*/, const Column& to) {
    for (int i = 0; i < kByteBlock; ++i) {
      const int low = from.At(q5_1::kCodes + i % 16) >> (i < 16 ? 0 : 4) & 15;
      to.SetCode(i, low | (from.At(q5_1::kHigh + i / 8) >> i % 8 & 1) << 4);
    }
    to.SetFactors(from.HalfAt(q5_1::kScale), -from.HalfAt(q5_1::kMin));
  }
};

struct Iq4Nl {
  static void Unpack(const BlockBytes& from, int /*part*/, const Column& to) {
    for (int i = 0; i < kByteBlock; ++i) {
      to.SetCode(i, kNonlinearLevels[from.At(q4_0::kCodes + i % 16) >> (i < 16 ? 0 : 4) & 15]);
    }
    to.SetFactors(from.HalfAt(q4_0::kScale), 0);
  }
};

struct Iq4Xs {
  static void Unpack(const BlockBytes& from, int part, const Column& to) {
    for (int i = 0; i < kByteBlock; ++i) {
      const int byte = from.At(iq4_xs::kCodes + part * 16 + i % 16);
      to.SetCode(i, kNonlinearLevels[byte >> (i < 16 ? 0 : 4) & 15]);
    }
    const int low = from.At(iq4_xs::kLow + part / 2) >> part % 2 * 4 & 15;
    const int high = from.At(iq4_xs::kHigh + part / 4) >> part % 4 * 2 & 3;
    to.SetFactors(from.HalfAt(iq4_xs::kScale) * static_cast<float>((low | high << 4) - 32), 0);
  }
};

// ByteKernels::unpack
template <class Format, int kBlockBytes, int kParts>
void Unpack(const PackedStrip& strip, UnpackedBlock* to) {
  for (int lane = 0; lane < kStripOutputs; ++lane) {
    for (int block = 0; block < strip.blocks; ++block) {
      const BlockBytes from{strip.weights + lane * strip.row_bytes +
                            std::int64_t{block} / kParts * kBlockBytes};
      Format::Unpack(from, block % kParts, {to + block, lane});
    }
  }
}

// ByteKernels::pack
void Pack(const float* values, std::int64_t blocks, ByteBlock* to) {
  for (std::int64_t b = 0; b < blocks; ++b, values += kByteBlock, ++to) {
    float max = 0;
    bool unordered = false;
    for (int i = 0; i < kByteBlock; ++i) {
      max = std::fmax(max, std::fabs(values[i]));
      unordered = unordered || std::isnan(values[i]);
    }
    const float factor = max >= kLeastByteInput && !unordered ? 127.0F / max : 0.0F;
    to->minus_codes = 0;
    for (int i = 0; i < kByteBlock; ++i) {
      const float scaled = std::nearbyint(values[i] * factor);
      // What is no number becomes 0, and so does its whole block: NaN, and inf times a factor of 0.
      const int code = std::isnan(scaled) ? 0 : static_cast<int>(scaled);
      to->codes[i] = static_cast<std::int8_t>(code);
      to->minus_codes -= code;
      if (i == kByteBlock / 2 - 1) to->minus_half = to->minus_codes;
    }
    to->scale = unordered ? std::nanf("") : max * (1.0F / 127.0F);
    to->sum = to->scale * static_cast<float>(-to->minus_codes);
  }
}

int Dot(const UnpackedBlock& weights, int lane, const ByteBlock& row, int first, int last) {
  int sum = 0;
  for (int i = first; i < last; ++i) {
    sum += int{weights.codes[i / 4][lane][i % 4]} * int{row.codes[i]};
  }
  return sum;
}

// Adds the term of a block to `sum`.
template <ByteForm kForm>
float AddTerm(const UnpackedBlock& weights, int lane, const ByteBlock& row, int zero_shift,
              float sum) {
  const float factor = weights.scales[lane] * row.scale;
  if constexpr (kForm == ByteForm::kHalves) {
    constexpr int kHalf = kByteBlock / 2;
    const int first = Dot(weights, lane, row, 0, kHalf) + (row.minus_half << zero_shift);
    const int last = Dot(weights, lane, row, kHalf, kByteBlock) +
                     ((row.minus_codes - row.minus_half) << zero_shift);
    sum = std::fma(static_cast<float>(first), factor, sum);
    return std::fma(static_cast<float>(last), weights.mins[lane] * row.scale, sum);
  } else if constexpr (kForm == ByteForm::kZero) {
    const int total = Dot(weights, lane, row, 0, kByteBlock) + (row.minus_codes << zero_shift);
    return std::fma(static_cast<float>(total), factor, sum);
  } else {
    sum = std::fma(static_cast<float>(Dot(weights, lane, row, 0, kByteBlock)), factor, sum);
    return std::fma(-weights.mins[lane], row.sum, sum);
  }
}

// ByteKernels::multiply
template <ByteForm kForm>
void Multiply(const StripProduct& product) {
  for (std::int64_t row = 0; row < product.num_rows; ++row) {
    const ByteBlock* const blocks = product.rows + row * product.row_blocks;
    for (int output = 0; output < product.strips * kStripOutputs; ++output) {
      if ((product.lanes >> output & 1U) == 0) continue;
      float* const out = product.out + row * product.out_stride + output;
      const UnpackedBlock* const strip =
          product.weights + std::int64_t{output / kStripOutputs} * product.blocks;
      float sum = product.accumulate ? *out : 0.0F;
      for (int block = 0; block < product.blocks; ++block) {
        sum = AddTerm<kForm>(strip[block], output % kStripOutputs, blocks[block],
                             product.zero_shift, sum);
      }
      *out = sum;
    }
  }
}

constexpr ByteKernels kKernels = {
    .isa = "portable",
    .pack = Pack,
    .unpack = {Unpack<Q40, q4_0::kBytes, 1>, Unpack<Q41, q4_1::kBytes, 1>,
               Unpack<Q80, q8_0::kBytes, 1>, Unpack<Q4K, q4_k::kBytes, 8>,
               Unpack<Q5K, q5_k::kBytes, 8>, Unpack<Q6K, q6_k::kBytes, 8>,
               Unpack<Q50, q5_0::kBytes, 1>, Unpack<Q51, q5_1::kBytes, 1>,
               Unpack<Iq4Nl, q4_0::kBytes, 1>, Unpack<Iq4Xs, iq4_xs::kBytes, 8>},
    .multiply = {Multiply<ByteForm::kMins>, Multiply<ByteForm::kZero>, Multiply<ByteForm::kHalves>},
};

}  // namespace

const ByteKernels* PortableByteKernels() { return &kKernels; }

}  // namespace swiftkv
