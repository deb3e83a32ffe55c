// SPDX-License-Identifier: Apache-2.0
// Holds rows of activations as bytes, the second factor of products with quantised weights.
//
// A row is cut into blocks of 32 inputs with a scale each, as ggml's Q8_1 does, but with the scale
// in f32. A block lies in one record, so a kernel follows one pointer a row. Owner: whoever
// computes; the memory is plain bytes that any number of threads may read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace swiftkv {

struct ByteKernels;  // model/byte_kernels.h

inline constexpr int kByteBlock = 32;  // inputs of a block

// 32 inputs: x[i] = scale codes[i], rounded to nearest.
struct ByteBlock {
  std::int8_t codes[kByteBlock];  // [-127, 127]
  float scale;                    // max |x| / 127; NaN where an input is NaN, inf where one is inf
  float sum;                      // scale times the sum of the codes
  // Sums of codes with their sign turned: what a constant zero point of weights starts from.
  std::int32_t minus_codes;  // of all 32
  std::int32_t minus_half;   // of the first 16
};
static_assert(sizeof(ByteBlock) == 48);

struct ByteRows {
  const ByteBlock* blocks;  // [rows, inputs / 32]
  std::int64_t rows;
  std::int64_t inputs;  // a multiple of 32

  std::int64_t row_blocks() const { return inputs / kByteBlock; }
};

// Rows to pack: row r starts at values + r * stride.
struct FloatRows {
  const float* values;
  std::int64_t stride;  // floats
  std::int64_t rows;
  std::int64_t inputs;  // a multiple of 32
};

// Returns the bytes that packed rows take.
constexpr std::size_t ByteRowsBytes(std::int64_t rows, std::int64_t inputs) {
  return static_cast<std::size_t>(rows * (inputs / kByteBlock)) * sizeof(ByteBlock);
}

// Views `memory`, 64-byte aligned, [ByteRowsBytes(rows, inputs)].
inline ByteRows ViewByteRows(const void* memory, std::int64_t rows, std::int64_t inputs) {
  return {static_cast<const ByteBlock*>(memory), rows, inputs};
}

// Packs this thread's share of the rows into `memory`. The shares of all threads together are all
// blocks, and a block comes out the same whoever packs it. Any input is allowed: what is no number
// makes the scale of its own block such. Inputs below 2^-120 may become 0.
void PackByteRows(const ByteKernels& kernels, const FloatRows& rows, void* memory, int thread,
                  int num_threads);

}  // namespace swiftkv
