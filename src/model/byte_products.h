// SPDX-License-Identifier: Apache-2.0
// Multiplies quantised weights, as they lie in a GGUF file, with rows of activations in bytes.
//
// For custom nodes: every thread of the caller's team calls MultiplyBytes with a range of its own,
// and needs no barrier. An output is computed alike in any range and beside any other rows, so
// results depend neither on the number of threads nor on the batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ggml.h"
#include "model/byte_kernels.h"
#include "model/byte_rows.h"

namespace swiftkv {

// A matrix [outputs, inputs] of blocks of a ggml type.
struct ByteProduct {
  ggml_type type;
  const void* weights;
  std::int64_t row_bytes;  // from an output to the next
  std::int64_t inputs;
  std::int64_t outputs;
};

// Returns whether such weights can be multiplied: a type of AllByteFormats(), whole blocks, 16
// outputs or more.
bool ServesByteProduct(ggml_type type, std::int64_t inputs, std::int64_t outputs);

// What one call computes, and the weights that its thread reads after that: they are prefetched
// while the last outputs are computed, since a start from cold memory costs small matrices much.
struct ByteRange {
  std::int64_t first_output;
  std::int64_t last_output;  // exclusive
  std::int64_t first_row;
  std::int64_t last_row;       // exclusive
  const void* next = nullptr;  // null where unknown
  std::int64_t next_bytes = 0;
};

// Returns the outputs of a thread: contiguous, in whole strips of 16 but for the last, all threads'
// shares together all `outputs`.
ByteRange ShareOfOutputs(std::int64_t outputs, std::int64_t rows, int thread, int num_threads);

// Row r, output o goes to values[r * stride + o].
struct ByteOutput {
  float* values;
  std::int64_t stride;  // floats
};

// Scratch of one thread, 64-byte aligned: what lies in the first cache while rows are multiplied.
inline constexpr int kMostChunkBlocks = 24;
inline constexpr std::size_t kByteScratchBytes =
    sizeof(UnpackedBlock) * kMostStrips * kMostChunkBlocks;

// Computes out = rows . weights^T in `range`; an empty range is allowed. The product is one that
// ServesByteProduct. Each weight is read once, whatever the number of rows.
void MultiplyBytes(const ByteKernels& kernels, const ByteProduct& product, const ByteRows& rows,
                   const ByteRange& range, void* scratch, const ByteOutput& out);

}  // namespace swiftkv
