// SPDX-License-Identifier: Apache-2.0
// Places the scales, K plane and V plane within one page (docs/page_format.md). Layer: formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "swiftkv/page_codec.h"

namespace swiftkv {

// The formats of a page's two planes. Compared by codec: codecs are singletons.
struct PageFormat {
  const PageCodec* key = nullptr;
  const PageCodec* value = nullptr;

  friend bool operator==(const PageFormat&, const PageFormat&) = default;
};

// Returns the pair's name where it has one, e.g. "f16" or "k8v4", else "f16/int4" (key/value).
std::string PageFormatName(const PageFormat& format);

// Returns the worse of both planes' grades.
Quality PageFormatQuality(const PageFormat& format);

// Byte offsets within a page. A 64-byte line of scales comes first when either plane has scales: 16
// f16 for K, then 16 f16 for V. All offsets and `bytes` are multiples of 64.
struct PageLayout {
  bool has_scales = false;
  std::uint32_t key_offset = 0;
  std::uint32_t value_offset = 0;
  std::uint32_t bytes = 0;  // whole page

  static PageLayout For(const PageFormat& format, int head_dim);
};

// Views of a page's planes.
PlaneView KeyPlane(const PageFormat& format, const PageLayout& layout, int head_dim,
                   const std::byte* page);
PlaneView ValuePlane(const PageFormat& format, const PageLayout& layout, int head_dim,
                     const std::byte* page);
MutablePlane MutableKeyPlane(const PageFormat& format, const PageLayout& layout, int head_dim,
                             std::byte* page);
MutablePlane MutableValuePlane(const PageFormat& format, const PageLayout& layout, int head_dim,
                               std::byte* page);

}  // namespace swiftkv
