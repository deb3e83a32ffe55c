// SPDX-License-Identifier: Apache-2.0
// Lists the kernels that byte products are made of, as functions on raw pointers, one table per
// instruction set.
//
// Sixteen outputs, a strip, are the lanes of a register. A chunk of a strip's weights is unpacked
// into UnpackedBlocks, which stay in the first cache while every row is multiplied with them. All
// tables give the same bits: codes are multiplied exactly, and floats are added in one stated
// order. Kernels allocate nothing, keep no state and know no threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_features.h"
#include "model/byte_formats.h"
#include "model/byte_rows.h"

namespace swiftkv {

inline constexpr int kStripOutputs = 16;
inline constexpr int kMostStrips = 2;  // that rows are multiplied with at once
// A block whose largest input is below becomes 0: 127 / it would not be finite, or not far from it.
inline constexpr float kLeastByteInput = 0x1p-120F;

// 32 inputs of 16 outputs in the universal form (byte_formats.h).
struct alignas(64) UnpackedBlock {
  std::uint8_t codes[kByteBlock / 4][kStripOutputs][4];
  float scales[kStripOutputs];  // kHalves: of the first 16 inputs
  float mins[kStripOutputs];    // kMins; kHalves: scales of the last 16 inputs
};
static_assert(sizeof(UnpackedBlock) == 640);

// Lines of 64 bytes to prefetch into the second cache while a kernel works: every line of a run, or
// every other one, where another kernel prefetches the rest.
struct AheadLines {
  const std::byte* first;
  int lines;   // 0: nothing
  int stride;  // bytes
};

// Some inputs of a strip as they lie in the file.
struct PackedStrip {
  const std::byte* weights;  // the first output's blocks, at the first input wanted
  std::int64_t row_bytes;    // from an output to the next
  int blocks;                // of 32 inputs, in whole blocks of the type
  const std::byte*
      soon;          // to prefetch into the first cache, as many bytes as are unpacked; or null
  AheadLines later;  // as many bytes
};

// out[r, o] = the sum over the blocks, added in order to 0 or to what is there. With rows' blocks a
// and weights' blocks w the term of a block is, in f32, each line one fused multiply-add:
//     kMins    + float(sum c codes) (w.scale a.scale)   - w.min a.sum
//     kZero    + float(sum c codes + (a.minus_codes << zero_shift)) (w.scale a.scale)
//     kHalves  the same for the first 16 inputs, then for the last
struct StripProduct {
  const UnpackedBlock* weights;  // [strips, blocks]
  int strips;                    // [1, kMostStrips]
  int blocks;
  int zero_shift;
  const ByteBlock* rows;    // the first row's block that the first block of weights meets
  std::int64_t row_blocks;  // from a row to the next
  std::int64_t num_rows;
  float* out;               // of the first row and the first output
  std::int64_t out_stride;  // floats
  std::uint32_t lanes;      // bit o: output o of the strips is written; others are not touched
  bool accumulate;
  AheadLines later[kMostStrips];
};

struct ByteKernels {
  const char* isa;
  void (*pack)(const float* values, std::int64_t blocks, ByteBlock* to);
  void (*unpack[kNumByteFormats])(const PackedStrip& strip, UnpackedBlock* to);
  void (*multiply[kNumByteForms])(const StripProduct& product);
};

const ByteKernels* PortableByteKernels();
// Null where this build does not have the instruction set; declared for x86-64 only. To call a
// kernel the CPU must have it too.
const ByteKernels* Avx512VnniByteKernels();

// Returns the kernels to use on a machine whose largest set is `isa`; null where they would be no
// faster than ggml's own.
const ByteKernels* FindByteKernels(Isa isa);

}  // namespace swiftkv
