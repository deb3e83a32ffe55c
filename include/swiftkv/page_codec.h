// SPDX-License-Identifier: Apache-2.0
// Defines the seam of page formats: how 16 tokens of one (layer, kv head) become bytes and come
// back. Layer: formats.
//
// A page is 16 consecutive tokens of one kv head of one layer: a K plane and a V plane, each in a
// format of its own (docs/page_format.md states every byte). A PageCodec serves one format for both
// planes. Codecs have no state and are shared by all threads. A plane's slots are written one by
// one and in any order (appending never rewrites a neighbour's bytes in a way that changes its
// value); slots never written hold unspecified bytes, which readers must mask, never multiply by
// zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "swiftkv/quality.h"
#include "swiftkv/rounding_guide.h"

namespace swiftkv {

inline constexpr int kPageTokens = 16;
inline constexpr std::size_t kPageAlignment = 64;

enum class Plane : std::uint8_t { kKey, kValue };

// What a kernel switches on; a stable number that is also written to files.
enum class FormatId : std::uint8_t {
  kF32 = 0,
  kF16 = 1,
  kBf16 = 2,
  kFp8E4m3 = 3,
  kFp8E5m2 = 4,
  kInt8 = 5,
  kInt4 = 6,
};

struct FormatInfo {
  const char* name;         // "f16": the flag's word
  const char* description;  // one line for help and docs
  FormatId id;
  Quality quality;        // the best grade that a block in this format can have
  double bits_per_value;  // without scales
  bool has_scales;        // one f16 scale per (token, head) in the page's first line
  bool rotated;           // bytes hold rows after RotateRow; Encode and Decode speak plain rows
};

// Rows to encode or decode: `count` tokens from page slot `first_slot` on, head_dim values each.
struct SlotRange {
  int first_slot;  // [0, 16)
  int count;       // first_slot + count <= 16
};

// One plane in memory. Byte is std::byte or const std::byte.
template <typename Byte, typename Scale>
struct PlaneRef {
  Plane plane;
  int head_dim;
  Byte* data;     // [PlaneBytes(head_dim)], aligned to 64
  Scale* scales;  // [16] f16, or null where the format has none
  // Of rows to be written, where their rounding is guided; formats without scales need none.
  const RoundingGuide* guide = nullptr;
};
using PlaneView = PlaneRef<const std::byte, const std::uint16_t>;
using MutablePlane = PlaneRef<std::byte, std::uint16_t>;

class PageCodec {
 public:
  virtual const FormatInfo& info() const = 0;

  // Returns whether planes of this head size exist in this format.
  virtual bool ServesHeadDim(int head_dim) const = 0;

  // Returns the bytes of one plane of 16 tokens, a multiple of 64. Scales are not in it.
  virtual std::size_t PlaneBytes(int head_dim) const = 0;

  // Writes rows into a plane. Values beyond the format's range saturate and NaN becomes 0: no plane
  // ever decodes to inf or NaN.
  virtual void Encode(const MutablePlane& plane, SlotRange slots, const float* rows,
                      std::size_t row_stride) const = 0;

  // Reads rows of a plane back into `rows`, [slots.count, row_stride] f32.
  virtual void Decode(const PlaneView& plane, SlotRange slots, float* rows,
                      std::size_t row_stride) const = 0;

 protected:
  ~PageCodec() = default;
};

}  // namespace swiftkv
