// SPDX-License-Identifier: Apache-2.0
// Declares the unpacking of weights with AVX-512 (ByteKernels::unpack), one function a format.
#pragma once

#include "model/byte_kernels.h"

namespace swiftkv::avx512vnni {

void UnpackQ4_0(const PackedStrip& strip, UnpackedBlock* to);
void UnpackQ4_1(const PackedStrip& strip, UnpackedBlock* to);
void UnpackQ8_0(const PackedStrip& strip, UnpackedBlock* to);
void UnpackQ4_K(const PackedStrip& strip, UnpackedBlock* to);
void UnpackQ5_K(const PackedStrip& strip, UnpackedBlock* to);
void UnpackQ6_K(const PackedStrip& strip, UnpackedBlock* to);
void UnpackQ5_0(const PackedStrip& strip, UnpackedBlock* to);
void UnpackQ5_1(const PackedStrip& strip, UnpackedBlock* to);
void UnpackIq4Nl(const PackedStrip& strip, UnpackedBlock* to);
void UnpackIq4Xs(const PackedStrip& strip, UnpackedBlock* to);

}  // namespace swiftkv::avx512vnni
