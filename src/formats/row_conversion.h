// SPDX-License-Identifier: Apache-2.0
// Converts rows of floats to and from 16-bit numbers, with the fastest instruction set of the
// machine.
//
// All functions are pure and safe from any thread. Rounding and saturation are those of
// docs/page_format.md, bit for bit the same in every instruction set (base/half.h is the scalar
// form).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_features.h"

namespace swiftkv {

// Each converts `count` numbers; source and destination do not overlap, any alignment.
struct RowConversion {
  void (*float_to_half)(const float* from, std::uint16_t* to, std::size_t count);  // saturating
  void (*half_to_float)(const std::uint16_t* from, float* to, std::size_t count);
  void (*float_to_bf16)(const float* from, std::uint16_t* to, std::size_t count);  // saturating
  void (*bf16_to_float)(const std::uint16_t* from, float* to, std::size_t count);
};

// Returns the conversions for `isa`, which the machine must run.
const RowConversion& RowConversionFor(Isa isa);

// Returns the conversions for this machine.
const RowConversion& HostRowConversion();

}  // namespace swiftkv
