// SPDX-License-Identifier: Apache-2.0
// Rotates rows by the fast Walsh-Hadamard transform of the fastest instruction set.
#include "formats/hadamard.h"

#include "base/check.h"
#include "formats/row_quantization.h"

namespace swiftkv {

void RotateRow(float* row, int head_dim) {
  const int block = RotationBlock(head_dim);
  SKV_CHECK(block >= 16);
  HostRowQuantization().rotate(row, static_cast<std::size_t>(head_dim),
                               static_cast<std::size_t>(block));
}

}  // namespace swiftkv
