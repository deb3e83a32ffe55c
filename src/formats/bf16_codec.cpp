// SPDX-License-Identifier: Apache-2.0
// Stores rows as bf16 in pairs: K [d/2][16][2], V [8][d][2]. For machines with AVX-512 BF16 or AMX.
#include "formats/bf16_codec.h"

#include <algorithm>

#include "formats/row_conversion.h"
#include "formats/slot_transpose.h"

namespace swiftkv {
namespace {

constexpr FormatInfo kInfo = {
    .name = "bf16",
    .description = "16-bit floats with 8 bits of mantissa: near, for AVX-512 BF16 and AMX",
    .id = FormatId::kBf16,
    .quality = Quality::kNear,
    .bits_per_value = 16,
    .has_scales = false,
    .rotated = false,
};

constexpr std::size_t kChunk = 64;  // channels converted at a time: 2 KiB of scratch for 16 tokens

// Two neighbouring channels of one token, moved as one unit.
struct ChannelPair {
  std::uint16_t channels[2];
};

}  // namespace

constinit const Bf16Codec kBf16Codec;

const FormatInfo& Bf16Codec::info() const { return kInfo; }

bool Bf16Codec::ServesHeadDim(int head_dim) const { return IsPlainHeadDim(head_dim); }

std::size_t Bf16Codec::PlaneBytes(int head_dim) const {
  return static_cast<std::size_t>(head_dim) * kPageTokens * sizeof(std::uint16_t);
}

void Bf16Codec::Encode(const MutablePlane& plane, SlotRange slots, const float* rows,
                       std::size_t row_stride) const {
  CheckSlots(slots);
  const RowConversion& convert = HostRowConversion();
  const auto dim = static_cast<std::size_t>(plane.head_dim);
  const auto count = static_cast<std::size_t>(slots.count);
  auto* const data = reinterpret_cast<std::uint16_t*>(plane.data);
  alignas(kPageAlignment) ChannelPair scratch[kPageTokens * kChunk / 2];
  for (std::size_t c = 0; c < dim; c += kChunk) {
    const std::size_t width = std::min(kChunk, dim - c);
    for (std::size_t t = 0; t < count; ++t) {
      std::uint16_t* const row = scratch[t * kChunk / 2].channels;
      convert.float_to_bf16(rows + t * row_stride + c, row, width);
      if (plane.plane == Plane::kKey) continue;
      const std::size_t slot = static_cast<std::size_t>(slots.first_slot) + t;
      std::uint16_t* const pairs = data + (slot / 2) * dim * 2 + c * 2 + slot % 2;
      for (std::size_t i = 0; i < width; ++i) pairs[i * 2] = row[i];
    }
    if (plane.plane == Plane::kKey) {
      auto* const pairs = reinterpret_cast<ChannelPair*>(data + c * kPageTokens);
      ScatterSlots(scratch, kChunk / 2, width / 2, slots, pairs);
    }
  }
}

void Bf16Codec::Decode(const PlaneView& plane, SlotRange slots, float* rows,
                       std::size_t row_stride) const {
  CheckSlots(slots);
  const RowConversion& convert = HostRowConversion();
  const auto dim = static_cast<std::size_t>(plane.head_dim);
  const auto count = static_cast<std::size_t>(slots.count);
  const auto* const data = reinterpret_cast<const std::uint16_t*>(plane.data);
  alignas(kPageAlignment) ChannelPair scratch[kPageTokens * kChunk / 2];
  for (std::size_t c = 0; c < dim; c += kChunk) {
    const std::size_t width = std::min(kChunk, dim - c);
    if (plane.plane == Plane::kKey) {
      const auto* const pairs = reinterpret_cast<const ChannelPair*>(data + c * kPageTokens);
      GatherSlots(pairs, width / 2, slots, scratch, kChunk / 2);
    }
    for (std::size_t t = 0; t < count; ++t) {
      std::uint16_t* const row = scratch[t * kChunk / 2].channels;
      if (plane.plane == Plane::kValue) {
        const std::size_t slot = static_cast<std::size_t>(slots.first_slot) + t;
        const std::uint16_t* const pairs = data + (slot / 2) * dim * 2 + c * 2 + slot % 2;
        for (std::size_t i = 0; i < width; ++i) row[i] = pairs[i * 2];
      }
      convert.bf16_to_float(row, rows + t * row_stride + c, width);
    }
  }
}

}  // namespace swiftkv
