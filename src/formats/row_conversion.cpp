// SPDX-License-Identifier: Apache-2.0
// Converts rows with the compiler's baseline and chooses between the instruction sets.
#include "formats/row_conversion.h"

#include "base/half.h"
#include "formats/row_conversion_avx2.h"

namespace swiftkv {
namespace {

void FloatToHalfRow(const float* from, std::uint16_t* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = FloatToHalfSaturated(from[i]);
}

void HalfToFloatRow(const std::uint16_t* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = HalfToFloat(from[i]);
}

void FloatToBf16Row(const float* from, std::uint16_t* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = FloatToBf16Saturated(from[i]);
}

void Bf16ToFloatRow(const std::uint16_t* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = Bf16ToFloat(from[i]);
}

constexpr RowConversion kPortable = {FloatToHalfRow, HalfToFloatRow, FloatToBf16Row,
                                     Bf16ToFloatRow};

#if defined(__x86_64__)
constexpr RowConversion kAvx2 = {avx2::FloatToHalfRow, avx2::HalfToFloatRow, avx2::FloatToBf16Row,
                                 avx2::Bf16ToFloatRow};
#endif

}  // namespace

const RowConversion& RowConversionFor([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx2) return kAvx2;  // eight numbers at a time keep up with memory
#endif
  return kPortable;
}

const RowConversion& HostRowConversion() {
  static const RowConversion& conversion = RowConversionFor(BestIsa(HostCpu()));
  return conversion;
}

}  // namespace swiftkv
