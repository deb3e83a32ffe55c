// SPDX-License-Identifier: Apache-2.0
// Multiplies by oneDNN's matrix kernels, one panel of unpacked weights after the other.
//
// A thread unpacks a panel, [inputs, outputs of the panel], into scratch that stays in its cache
// and multiplies all rows with it: f32, or bf16 where measuring finds the CPU's bf16 units faster
// (AMX; AVX-512 BF16 of some). Kernels run on the calling thread alone.
#pragma once

#include <cstdint>
#include <memory>

#include "model/linear_backend.h"

namespace swiftkv {

enum class OnednnNumbers : std::uint8_t { kF32, kBf16 };

// In the numbers that this CPU multiplies fastest, which is measured.
std::unique_ptr<LinearBackend> MakeOnednnLinear();
// In the given ones. Products of bf16 are null where the library has none for this CPU.
std::unique_ptr<LinearBackend> MakeOnednnLinear(OnednnNumbers numbers);

// Frees the kernels that oneDNN keeps though no product uses them.
void FreeUnusedOnednnKernels();

}  // namespace swiftkv
