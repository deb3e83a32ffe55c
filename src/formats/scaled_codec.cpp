// SPDX-License-Identifier: Apache-2.0
// Runs rows through sanitising, rotation, coding and layout, and back.
#include "formats/scaled_codec.h"

#include <cstring>

#include "base/half.h"
#include "formats/hadamard.h"
#include "formats/row_quantization.h"
#include "formats/slot_transpose.h"

namespace swiftkv {

std::uint16_t ScaleAtLeast(float scale) {
  constexpr std::uint16_t kLargestHalf = 0x7BFF;
  const std::uint16_t nearest = FloatToHalfSaturated(scale);
  if (HalfToFloat(nearest) >= scale || nearest == kLargestHalf) return nearest;
  return static_cast<std::uint16_t>(nearest + 1);
}

float FactorOf(std::uint16_t scale) { return scale == 0 ? 0.0F : 1.0F / HalfToFloat(scale); }

bool ScaledCodec::ServesHeadDim(int head_dim) const { return IsPlainHeadDim(head_dim); }

std::size_t ScaledCodec::PlaneBytes(int head_dim) const {
  return static_cast<std::size_t>(head_dim) * kPageTokens *
         static_cast<std::size_t>(layout_->bits_per_code) / 8;
}

void ScaledCodec::Encode(const MutablePlane& plane, SlotRange slots, const float* rows,
                         std::size_t row_stride) const {
  CheckSlots(slots);
  const RowQuantization& quantization = HostRowQuantization();
  const auto dim = static_cast<std::size_t>(plane.head_dim);
  alignas(kPageAlignment) float stored[kPageTokens * kMostChannels];
  for (std::size_t t = 0; t < static_cast<std::size_t>(slots.count); ++t) {
    quantization.sanitize(rows + t * row_stride, stored + t * dim, dim);
    if (info_->rotated) RotateRow(stored + t * dim, plane.head_dim);
  }
  EncodeStored(plane, slots, stored, dim);
}

void ScaledCodec::EncodeStored(const MutablePlane& plane, SlotRange slots, const float* rows,
                               std::size_t row_stride) const {
  CheckSlots(slots);
  const auto dim = static_cast<std::size_t>(plane.head_dim);
  alignas(kPageAlignment) std::uint8_t codes[kPageTokens * kMostChannels];
  std::uint16_t* const scales = plane.scales + slots.first_slot;
  const auto count = static_cast<std::size_t>(slots.count);
  if (plane.guide != nullptr) {
    GuidedRows guided;
    guided.guide = plane.guide;
    guided.rows = rows;
    guided.row_stride = row_stride;
    guided.dim = dim;
    guided.count = count;
    guided.codes = codes;
    coding_->encode_guided(guided, scales);
  } else {
    for (std::size_t t = 0; t < count; ++t) {
      scales[t] = coding_->encode(rows + t * row_stride, dim, codes + t * dim);
    }
  }
  auto* const data = reinterpret_cast<std::uint8_t*>(plane.data);
  const auto scatter = plane.plane == Plane::kKey ? layout_->scatter_keys : layout_->scatter_values;
  scatter(codes, dim, slots, data);
}

void ScaledCodec::Decode(const PlaneView& plane, SlotRange slots, float* rows,
                         std::size_t row_stride) const {
  DecodeStored(plane, slots, rows, row_stride);
  if (!info_->rotated) return;
  for (std::size_t t = 0; t < static_cast<std::size_t>(slots.count); ++t) {
    RotateRow(rows + t * row_stride, plane.head_dim);
  }
}

void ScaledCodec::DecodeStored(const PlaneView& plane, SlotRange slots, float* rows,
                               std::size_t row_stride) const {
  CheckSlots(slots);
  const auto dim = static_cast<std::size_t>(plane.head_dim);
  alignas(kPageAlignment) std::uint8_t codes[kPageTokens * kMostChannels];
  const auto* const data = reinterpret_cast<const std::uint8_t*>(plane.data);
  const auto gather = plane.plane == Plane::kKey ? layout_->gather_keys : layout_->gather_values;
  gather(data, dim, slots, codes);
  for (std::size_t t = 0; t < static_cast<std::size_t>(slots.count); ++t) {
    const float scale = HalfToFloat(plane.scales[static_cast<std::size_t>(slots.first_slot) + t]);
    coding_->decode(codes + t * dim, scale, dim, rows + t * row_stride);
  }
}

void ScaledCodec::CopySlots(const PlaneView& source, std::span<const std::uint8_t> from,
                            const MutablePlane& target, int first_slot) const {
  const SlotRange written = {first_slot, static_cast<int>(from.size())};
  CheckSlots(written);
  const auto dim = static_cast<std::size_t>(source.head_dim);
  const bool is_key = source.plane == Plane::kKey;
  alignas(kPageAlignment) std::uint8_t read[kPageTokens * kMostChannels];
  alignas(kPageAlignment) std::uint8_t picked[kPageTokens * kMostChannels];
  const auto gather = is_key ? layout_->gather_keys : layout_->gather_values;
  gather(reinterpret_cast<const std::uint8_t*>(source.data), dim, {0, kPageTokens}, read);
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::memcpy(picked + i * dim, read + from[i] * dim, dim);
    target.scales[static_cast<std::size_t>(first_slot) + i] = source.scales[from[i]];
  }
  const auto scatter = is_key ? layout_->scatter_keys : layout_->scatter_values;
  scatter(picked, dim, written, reinterpret_cast<std::uint8_t*>(target.data));
}

}  // namespace swiftkv
