// SPDX-License-Identifier: Apache-2.0
// Declares the codec of format f32 (docs/page_format.md).
#pragma once

#include "swiftkv/page_codec.h"

namespace swiftkv {

class F32Codec final : public PageCodec {
 public:
  const FormatInfo& info() const override;
  bool ServesHeadDim(int head_dim) const override;
  std::size_t PlaneBytes(int head_dim) const override;
  void Encode(const MutablePlane& plane, SlotRange slots, const float* rows,
              std::size_t row_stride) const override;
  void Decode(const PlaneView& plane, SlotRange slots, float* rows,
              std::size_t row_stride) const override;
};

extern const F32Codec kF32Codec;

}  // namespace swiftkv
