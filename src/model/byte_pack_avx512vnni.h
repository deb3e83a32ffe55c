// SPDX-License-Identifier: Apache-2.0
// Declares the packing of activations with AVX-512 (ByteKernels::pack).
#pragma once

#include <cstdint>

#include "model/byte_rows.h"

namespace swiftkv::avx512vnni {

void Pack(const float* values, std::int64_t blocks, ByteBlock* to);

}  // namespace swiftkv::avx512vnni
