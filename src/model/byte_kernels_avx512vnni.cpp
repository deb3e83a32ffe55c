// SPDX-License-Identifier: Apache-2.0
// Returns no kernels.
#include "model/byte_kernels.h"

namespace swiftkv {
const ByteKernels* Avx512VnniByteKernels() { return nullptr; }
}  // namespace swiftkv
