// SPDX-License-Identifier: Apache-2.0
// Splits the packing of activations between threads.
#include "model/byte_rows.h"

#include <algorithm>

#include "base/check.h"
#include "model/byte_kernels.h"

namespace swiftkv {

void PackByteRows(const ByteKernels& kernels, const FloatRows& rows, void* memory, int thread,
                  int num_threads) {
  SKV_CHECK(rows.inputs % kByteBlock == 0);
  // By blocks, not by rows: a single row is shared out too.
  const std::int64_t row_blocks = rows.inputs / kByteBlock;
  const std::int64_t total = rows.rows * row_blocks;
  const std::int64_t last = total * (thread + 1) / num_threads;
  auto* const blocks = static_cast<ByteBlock*>(memory);
  for (std::int64_t block = total * thread / num_threads; block < last;) {
    const std::int64_t row = block / row_blocks;
    const std::int64_t in_row = block % row_blocks;
    const std::int64_t count = std::min(row_blocks - in_row, last - block);
    kernels.pack(rows.values + row * rows.stride + in_row * kByteBlock, count, blocks + block);
    block += count;
  }
}

}  // namespace swiftkv
