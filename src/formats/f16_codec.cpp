// SPDX-License-Identifier: Apache-2.0
// Stores rows as IEEE binary16: K [d][16], V [16][d]. The default format.
#include "formats/f16_codec.h"

#include <algorithm>

#include "formats/row_conversion.h"
#include "formats/slot_transpose.h"

namespace swiftkv {
namespace {

constexpr FormatInfo kInfo = {
    .name = "f16",
    .description = "16-bit floats: exact, the default",
    .id = FormatId::kF16,
    .quality = Quality::kExact,
    .bits_per_value = 16,
    .has_scales = false,
    .rotated = false,
};

constexpr std::size_t kChunk = 64;  // channels converted at a time: 2 KiB of scratch for 16 tokens

}  // namespace

constinit const F16Codec kF16Codec;

const FormatInfo& F16Codec::info() const { return kInfo; }

bool F16Codec::ServesHeadDim(int head_dim) const { return IsPlainHeadDim(head_dim); }

std::size_t F16Codec::PlaneBytes(int head_dim) const {
  return static_cast<std::size_t>(head_dim) * kPageTokens * sizeof(std::uint16_t);
}

void F16Codec::Encode(const MutablePlane& plane, SlotRange slots, const float* rows,
                      std::size_t row_stride) const {
  CheckSlots(slots);
  const RowConversion& convert = HostRowConversion();
  const auto dim = static_cast<std::size_t>(plane.head_dim);
  const auto count = static_cast<std::size_t>(slots.count);
  auto* const data = reinterpret_cast<std::uint16_t*>(plane.data);
  if (plane.plane == Plane::kValue) {
    for (std::size_t t = 0; t < count; ++t) {
      const std::size_t slot = static_cast<std::size_t>(slots.first_slot) + t;
      convert.float_to_half(rows + t * row_stride, data + slot * dim, dim);
    }
    return;
  }
  alignas(kPageAlignment) std::uint16_t scratch[kPageTokens * kChunk];
  for (std::size_t c = 0; c < dim; c += kChunk) {
    const std::size_t width = std::min(kChunk, dim - c);
    for (std::size_t t = 0; t < count; ++t) {
      convert.float_to_half(rows + t * row_stride + c, scratch + t * kChunk, width);
    }
    ScatterSlots(scratch, kChunk, width, slots, data + c * kPageTokens);
  }
}

void F16Codec::Decode(const PlaneView& plane, SlotRange slots, float* rows,
                      std::size_t row_stride) const {
  CheckSlots(slots);
  const RowConversion& convert = HostRowConversion();
  const auto dim = static_cast<std::size_t>(plane.head_dim);
  const auto count = static_cast<std::size_t>(slots.count);
  const auto* const data = reinterpret_cast<const std::uint16_t*>(plane.data);
  if (plane.plane == Plane::kValue) {
    for (std::size_t t = 0; t < count; ++t) {
      const std::size_t slot = static_cast<std::size_t>(slots.first_slot) + t;
      convert.half_to_float(data + slot * dim, rows + t * row_stride, dim);
    }
    return;
  }
  alignas(kPageAlignment) std::uint16_t scratch[kPageTokens * kChunk];
  for (std::size_t c = 0; c < dim; c += kChunk) {
    const std::size_t width = std::min(kChunk, dim - c);
    GatherSlots(data + c * kPageTokens, width, slots, scratch, kChunk);
    for (std::size_t t = 0; t < count; ++t) {
      convert.half_to_float(scratch + t * kChunk, rows + t * row_stride + c, width);
    }
  }
}

}  // namespace swiftkv
