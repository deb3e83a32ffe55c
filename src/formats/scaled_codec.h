// SPDX-License-Identifier: Apache-2.0
// Encodes pages of the formats that store one scale per (token, head) and a code per value.
//
// A format is a RowCoding (a row of floats to codes and a scale, and back) and a CodeLayout (where
// codes lie in a plane). A scale depends on its own row alone, so appending never rewrites a
// neighbour.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/code_layout.h"
#include "formats/guided_rounding.h"
#include "swiftkv/page_codec.h"

namespace swiftkv {

struct RowCoding {
  // Writes the codes of a row [dim] and returns its scale as f16 bits. The row is sanitised
  // (RowQuantization::sanitize) and, in a rotated format, rotated.
  std::uint16_t (*encode)(const float* row, std::size_t dim, std::uint8_t* codes);
  // Likewise for several rows and under a guide: writes codes and `scales`, [count] f16 bits.
  // `rows`, at most 16, comes without factors and costs.
  void (*encode_guided)(GuidedRows rows, std::uint16_t* scales);
  // Writes the values of codes [dim].
  void (*decode)(const std::uint8_t* codes, float scale, std::size_t dim, float* row);
};

class ScaledCodec final : public PageCodec {
 public:
  // All three outlive the codec.
  constexpr ScaledCodec(const FormatInfo* info, const RowCoding* coding, const CodeLayout* layout)
      : info_(info), coding_(coding), layout_(layout) {}

  const FormatInfo& info() const override { return *info_; }
  bool ServesHeadDim(int head_dim) const override;
  std::size_t PlaneBytes(int head_dim) const override;
  void Encode(const MutablePlane& plane, SlotRange slots, const float* rows,
              std::size_t row_stride) const override;
  void Decode(const PlaneView& plane, SlotRange slots, float* rows,
              std::size_t row_stride) const override;

  // Like Encode and Decode, of rows as they are stored: sanitised and, in a rotated format,
  // rotated.
  void EncodeStored(const MutablePlane& plane, SlotRange slots, const float* rows,
                    std::size_t row_stride) const;
  void DecodeStored(const PlaneView& plane, SlotRange slots, float* rows,
                    std::size_t row_stride) const;

  // Copies codes and scales of slots `from` of a plane to slots from `first_slot` on of another,
  // bit for bit; at most 16.
  void CopySlots(const PlaneView& source, std::span<const std::uint8_t> from,
                 const MutablePlane& target, int first_slot) const;

 private:
  const FormatInfo* info_;
  const RowCoding* coding_;
  const CodeLayout* layout_;
};

// Returns the f16 bits of the smallest scale that is at least `scale`, so that no code is cut; the
// largest finite one where there is none.
std::uint16_t ScaleAtLeast(float scale);

// Returns what a row is multiplied by for a scale of these f16 bits: 0 for a scale of 0.
float FactorOf(std::uint16_t scale);

}  // namespace swiftkv
