// SPDX-License-Identifier: Apache-2.0
// Stores rows as they are: K [d][16] f32, V [16][d] f32. The oracle of every other format.
#include "formats/f32_codec.h"

#include <cstring>
#include <limits>

#include "formats/slot_transpose.h"

namespace swiftkv {
namespace {

constexpr FormatInfo kInfo = {
    .name = "f32",
    .description = "32-bit floats, for oracles: exact, twice the bytes of f16",
    .id = FormatId::kF32,
    .quality = Quality::kExact,
    .bits_per_value = 32,
    .has_scales = false,
    .rotated = false,
};

inline float Finite(float value) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  if (value != value) return 0;
  return value > kLargest ? kLargest : value < -kLargest ? -kLargest : value;
}

}  // namespace

constinit const F32Codec kF32Codec;

const FormatInfo& F32Codec::info() const { return kInfo; }

bool F32Codec::ServesHeadDim(int head_dim) const { return IsPlainHeadDim(head_dim); }

std::size_t F32Codec::PlaneBytes(int head_dim) const {
  return static_cast<std::size_t>(head_dim) * kPageTokens * sizeof(float);
}

void F32Codec::Encode(const MutablePlane& plane, SlotRange slots, const float* rows,
                      std::size_t row_stride) const {
  CheckSlots(slots);
  const auto dim = static_cast<std::size_t>(plane.head_dim);
  auto* const data = reinterpret_cast<float*>(plane.data);
  for (int t = 0; t < slots.count; ++t) {
    const float* const row = rows + static_cast<std::size_t>(t) * row_stride;
    const auto slot = static_cast<std::size_t>(slots.first_slot + t);
    if (plane.plane == Plane::kKey) {
      for (std::size_t c = 0; c < dim; ++c) data[c * kPageTokens + slot] = Finite(row[c]);
    } else {
      for (std::size_t c = 0; c < dim; ++c) data[slot * dim + c] = Finite(row[c]);
    }
  }
}

void F32Codec::Decode(const PlaneView& plane, SlotRange slots, float* rows,
                      std::size_t row_stride) const {
  CheckSlots(slots);
  const auto dim = static_cast<std::size_t>(plane.head_dim);
  const auto* const data = reinterpret_cast<const float*>(plane.data);
  if (plane.plane == Plane::kKey) {
    GatherSlots(data, dim, slots, rows, row_stride);
    return;
  }
  for (int t = 0; t < slots.count; ++t) {
    std::memcpy(rows + static_cast<std::size_t>(t) * row_stride,
                data + static_cast<std::size_t>(slots.first_slot + t) * dim, dim * sizeof(float));
  }
}

}  // namespace swiftkv
