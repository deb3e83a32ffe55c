// SPDX-License-Identifier: Apache-2.0
// Sends single rows through codecs: what a token's row decodes to must not depend on other tokens.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "formats/plane_transcoding.h"
#include "swiftkv/page_codec.h"

namespace swiftkv {

// A plane that holds one row.
class LoneRow {
 public:
  LoneRow(const PageCodec* codec, Plane plane, int dim)
      : codec_(codec), plane_(plane), dim_(dim), bytes_(codec->PlaneBytes(dim) + kPageAlignment) {
    void* data = bytes_.data();
    std::size_t space = bytes_.size();
    data_ =
        static_cast<std::byte*>(std::align(kPageAlignment, codec->PlaneBytes(dim), data, space));
  }

  const PageCodec* codec() const { return codec_; }

  void Store(const std::vector<float>& row) {
    codec_->Encode(Writable(), {0, 1}, row.data(), row.size());
  }

  std::vector<float> Load() const {
    std::vector<float> row(static_cast<std::size_t>(dim_));
    codec_->Decode(Readable(), {0, 1}, row.data(), row.size());
    return row;
  }

  // Goes over to another codec.
  LoneRow In(const PageCodec* codec) const {
    LoneRow other(codec, plane_, dim_);
    TranscodePlane(*codec_, Readable(), *codec, other.Writable(), {0, 1});
    return other;
  }

 private:
  MutablePlane Writable() {
    return {plane_, dim_, data_, codec_->info().has_scales ? scales_.data() : nullptr};
  }
  PlaneView Readable() const {
    return {plane_, dim_, data_, codec_->info().has_scales ? scales_.data() : nullptr};
  }

  const PageCodec* codec_;
  Plane plane_;
  int dim_;
  std::vector<std::byte> bytes_;
  std::byte* data_;  // within bytes_
  std::array<std::uint16_t, kPageTokens> scales_{};
};

}  // namespace swiftkv
