// SPDX-License-Identifier: Apache-2.0
// Lists the ggml weight types that are multiplied as bytes, and where the parts of their blocks
// lie.
//
// Every type is one universal form: blocks of 32 inputs with unsigned byte codes c, where
//     w = scale c - min             (kMins), or
//     w = scale (c - 2^zero_shift)  (kZero), or the same with a scale for each 16 inputs (kHalves).
#pragma once

#include <cstdint>
#include <span>

#include "ggml.h"

namespace swiftkv {

enum class ByteForm : std::uint8_t { kMins = 0, kZero = 1, kHalves = 2 };
inline constexpr int kNumByteForms = 3;

// Rows of the table of formats and of ByteKernels::unpack.
enum class ByteFormatId : std::uint8_t {
  kQ40 = 0,
  kQ41 = 1,
  kQ80 = 2,
  kQ4K = 3,
  kQ5K = 4,
  kQ6K = 5,
  kQ50 = 6,
  kQ51 = 7,
  kIq4Nl = 8,  // blocks as those of Q4_0
  kIq4Xs = 9,
};
inline constexpr int kNumByteFormats = 10;

struct ByteFormat {
  ByteFormatId id;
  ggml_type type;
  ByteForm form;
  int zero_shift;    // kZero and kHalves
  int block_inputs;  // of the type's own block
  int block_bytes;
};

// Where parts begin in a block, in bytes. Two codes of 4 bits share a byte, the low one first in
// the order of inputs: inputs i and i + 16 of 32 (Q4_0, Q4_1), or inputs i and i + 32 of 64
// (K-quants).
namespace q4_0 {
inline constexpr int kScale = 0;  // f16
inline constexpr int kCodes = 2;  // [16]
inline constexpr int kBytes = 18;
}  // namespace q4_0
namespace q4_1 {
inline constexpr int kScale = 0;  // f16
inline constexpr int kMin = 2;    // f16, added
inline constexpr int kCodes = 4;  // [16]
inline constexpr int kBytes = 20;
}  // namespace q4_1
namespace q8_0 {
inline constexpr int kScale = 0;  // f16
inline constexpr int kCodes = 2;  // [32] signed
inline constexpr int kBytes = 34;
}  // namespace q8_0
// Scales and mins of the 8 blocks of 32 are 6-bit integers s and m, times the two f16 numbers.
// With bytes p of the packed ones, s[j] = p[j] & 63 and m[j] = p[j + 4] & 63 for j < 4, and
// s[j] = p[j + 4] & 15 | p[j - 4] >> 6 << 4, m[j] = p[j + 4] >> 4 | p[j] >> 6 << 4 beyond.
namespace q4_k {
inline constexpr int kScale = 0;   // f16
inline constexpr int kMin = 2;     // f16, taken away
inline constexpr int kPacked = 4;  // [12]
inline constexpr int kCodes = 16;  // [128]
inline constexpr int kBytes = 144;
}  // namespace q4_k
namespace q5_k {
inline constexpr int kScale = 0;
inline constexpr int kMin = 2;
inline constexpr int kPacked = 4;
inline constexpr int kHigh = 16;   // [32]: bit j of byte i is the fifth bit of input 32 j + i
inline constexpr int kCodes = 48;  // [128]
inline constexpr int kBytes = 176;
}  // namespace q5_k
// Halves of 128 inputs: input i has its low 4 bits in byte i % 64 (low nibbles before 64, high ones
// after), and its high 2 in byte i % 32, bits 2 (i / 32) on.
namespace q6_k {
inline constexpr int kLow = 0;       // [128]
inline constexpr int kHigh = 128;    // [64]
inline constexpr int kScales = 192;  // [16] signed bytes, one for 16 inputs
inline constexpr int kScale = 208;   // f16
inline constexpr int kBytes = 210;
}  // namespace q6_k

// Bit j of the high bits is the fifth bit of input j.
namespace q5_0 {
inline constexpr int kScale = 0;  // f16
inline constexpr int kHigh = 2;   // u32
inline constexpr int kCodes = 6;  // [16]
inline constexpr int kBytes = 22;
}  // namespace q5_0
namespace q5_1 {
inline constexpr int kScale = 0;  // f16
inline constexpr int kMin = 2;    // f16, added
inline constexpr int kHigh = 4;   // u32
inline constexpr int kCodes = 8;  // [16]
inline constexpr int kBytes = 24;
}  // namespace q5_1
// The scale of block j of 8 is the f16 times (low | high << 4) - 32, where low is nibble j and high
// bits 2 j and 2 j + 1 of theirs. Codes of a block lie as those of Q4_0.
namespace iq4_xs {
inline constexpr int kScale = 0;  // f16
inline constexpr int kHigh = 2;   // u16
inline constexpr int kLow = 4;    // u32
inline constexpr int kCodes = 8;  // [8][16]
inline constexpr int kBytes = 136;
}  // namespace iq4_xs
// What the codes of IQ4_NL and IQ4_XS stand for, biased by 128.
inline constexpr std::uint8_t kNonlinearLevels[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                      129, 141, 153, 166, 181, 197, 217, 241};

// Lists the formats in the order of their ids.
std::span<const ByteFormat> AllByteFormats();

// Returns the format of a ggml type; null where the type is none of them.
const ByteFormat* FindByteFormat(ggml_type type);

}  // namespace swiftkv
